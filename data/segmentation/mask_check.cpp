#include "data/segmentation/mask_check.h"

#include "core/error.h"
#include "core/parallel.h"
#include "data/images/formats.h"
#include "data/resize.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <numeric>

namespace lacuna {
namespace {

using FileBytes = std::span<const std::uint8_t>;

std::string size_text(const ImageSize& size) { return fmt::format("{}×{}", size.width, size.height); }

/// An image's sizes as stored and as its EXIF orientation turns it.
struct Sizes {
  ImageSize stored, turned;
  bool has_orientation;
};

Sizes sizes_of(FileBytes image) {
  const auto reader = open_image(image);
  const ImageSize stored(reader->height(), reader->width());
  constexpr int upright = 1, first_turned = 5;
  const int orientation = exif_orientation(image);
  return {stored, orientation >= first_turned ? ImageSize(stored.width, stored.height) : stored, orientation > upright};
}

/// The size that a mask gets: its own, or the image's.
ImageSize target_size(const MaskReading& reading, const Sizes& image, const ImageSize& own) {
  if (own == image.stored || own == image.turned) return own;
  if (reading.size == MaskSize::same)
    reject_sample(
        "the mask has {} pixels and the image {}: expected the same size; data.mask_size=resize takes the nearest "
        "pixels",
        size_text(own), size_text(image.stored));
  return (own.height < own.width) == (image.stored.height < image.stored.width) ? image.stored : image.turned;
}

/// Writes one row of labels.
template <class T>
struct Rows {
  const MaskReading& reading;
  ImageSize from, to;
  T* out;  // [to.height, to.width]
  std::vector<T> labels = std::vector<T>(static_cast<std::size_t>(from.width));
  std::vector<std::int64_t> rows = nearest_positions(from.height, to.height, to.height),
                            columns = nearest_positions(from.width, to.width, to.width);
  std::int64_t read = 0, written = 0;

  void add(const std::uint16_t* row) {
    const T ignored = static_cast<T>(mask_field(reading.classes, 0, 0).padding);
    for (std::int64_t x = 0; x < from.width; ++x) {
      const std::int32_t label = reading.labels[row[x]];
      if (label >= reading.classes) refuse(row[x], label, x);
      labels[static_cast<std::size_t>(x)] = label == MaskLabels::ignored ? ignored : static_cast<T>(label);
    }
    // Pillow's NEAREST, as masks follow their images.
    for (; written < to.height && rows[static_cast<std::size_t>(written)] == read; ++written)
      for (std::int64_t x = 0; x < to.width; ++x)
        out[written * to.width + x] = labels[static_cast<std::size_t>(columns[static_cast<std::size_t>(x)])];
    ++read;
  }

  [[noreturn]] void refuse(std::uint16_t value, std::int32_t label, std::int64_t x) const {
    reject_sample(
        "value {}{} at pixel x={}, y={}, expected a class from 0 to {}{}. Usual causes: masks of 0 and 255 "
        "(data.map={{255: 1}}), classes that count from 1 (data.zero_label=ignore), colours in place of numbers "
        "(data.colors); data.labels or data.classes says how many classes there are",
        value, label == value ? "" : fmt::format(" (label {})", label), x, read, reading.classes - 1,
        reading.labels.description().empty() ? "" : fmt::format(" ({})", reading.labels.description()));
  }
};

template <class T>
void read_rows(const MaskReading& reading, const ImageSize& size, MaskReader& mask, const Tensor& out) {
  Rows<T> rows{.reading = reading, .from = {mask.height(), mask.width()}, .to = size, .out = out.data<T>()};
  mask.read([&](const std::uint16_t* row) { rows.add(row); });
}

std::vector<std::uint8_t> file_of(const FileTree& tree, std::int32_t file) {
  std::vector<std::uint8_t> bytes;
  tree.read(file, [&](std::int64_t count) {
    bytes.resize(static_cast<std::size_t>(count));
    return std::span(bytes);
  });
  return bytes;
}

}  // namespace

std::array<std::pair<std::string_view, MaskSize>, 2> names_of(MaskSize) {
  return {{{"same", MaskSize::same}, {"resize", MaskSize::resize}}};
}

Tensor read_mask(const MaskReading& reading, FileBytes image, FileBytes mask,
                 const std::function<Tensor(const Shape& shape, DType dtype)>& make) {
  MaskReader reader(mask, reading.colors);
  const ImageSize size = target_size(reading, sizes_of(image), {reader.height(), reader.width()});
  Tensor out = make({size.height, size.width}, mask_field(reading.classes, 0, 0).dtype);
  if (out.dtype() == DType::u8)
    read_rows<std::uint8_t>(reading, size, reader, out);
  else
    read_rows<std::int64_t>(reading, size, reader, out);
  return out;
}

MaskSurvey survey(const MaskReading& given, const MaskSplit& split, std::int64_t most, bool are_learned) {
  constexpr std::int64_t all_values = 65535;
  MaskReading reading = given;
  if (reading.classes == 0) reading.classes = all_values;
  const double ignored = mask_field(reading.classes, 0, 0).padding;
  const std::int64_t pairs = std::ssize(split.pairs), count = std::min(most, pairs);
  MaskSurvey found{.pixels = std::vector<std::int64_t>(static_cast<std::size_t>(reading.classes)), .masks = count};
  std::mutex mutex;
  parallel_for(count, 2, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> pixels(found.pixels.size());
    std::int64_t open = 0, turned = 0, unclear = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const MaskPair& pair = split.pairs[static_cast<std::size_t>(i * pairs / count)];
      const std::vector<std::uint8_t> image = file_of(*split.tree, pair.image), mask = file_of(*split.tree, pair.mask);
      try {
        const Tensor labels = read_mask(reading, image, mask, [](const Shape& shape, DType dtype) {
          return Tensor::empty(shape, dtype, Device::cpu, Purpose::data);
        });
        const auto add = [&]<class T>(const T* from) {
          for (std::int64_t at = 0; at < labels.count(); ++at)
            if (static_cast<double>(from[at]) == ignored)
              ++open;
            else
              ++pixels[static_cast<std::size_t>(from[at])];
        };
        if (labels.dtype() == DType::u8)
          add(labels.data<const std::uint8_t>());
        else
          add(labels.data<const std::int64_t>());
        const Sizes sizes = sizes_of(image);
        const ImageSize size(labels.shape()[0], labels.shape()[1]);
        turned += size != sizes.stored && size == sizes.turned ? 1 : 0;
        unclear += sizes.has_orientation && sizes.stored == sizes.turned ? 1 : 0;
      } catch (const DamagedSample& error) {
        reject("{}: {}", split.tree->origin(pair.mask), error.what());
      }
    }
    const std::scoped_lock lock(mutex);
    for (std::size_t i = 0; i < pixels.size(); ++i) found.pixels[i] += pixels[i];
    found.ignored += open;
    found.turned += turned;
    found.unclear += unclear;
  });
  if (given.classes == 0)
    while (!found.pixels.empty() && found.pixels.back() == 0) found.pixels.pop_back();
  if (are_learned && found.ignored > 0 &&
      std::ranges::count_if(found.pixels, [](std::int64_t n) { return n > 0; }) < 2) {
    if (count < pairs) return survey(given, split, pairs, are_learned);  // rare classes
    reject(
        "{}: there is nothing to learn: all pixels of the masks, as of {}, are of one class or ignored ({}). In masks "
        "of 0 and 255, where 255 is a class: data.map={{255: 1}}",
        split.tree->origin(split.pairs.front().mask), split.tree->path(split.pairs.front().mask),
        given.labels.description());
  }
  return found;
}

std::string describe(const MaskSurvey& survey, const std::vector<std::string>& classes) {
  const std::int64_t known = std::accumulate(survey.pixels.begin(), survey.pixels.end(), std::int64_t{0});
  const double all = static_cast<double>(known + survey.ignored);
  std::vector<std::string> shares, absent;
  for (std::size_t i = 0; i < survey.pixels.size(); ++i) {
    const std::string name = i < classes.size() ? classes[i] : std::to_string(i);
    if (survey.pixels[i] == 0)
      absent.push_back(name);
    else
      shares.push_back(fmt::format("{} {:.2g} %", name, 100 * static_cast<double>(survey.pixels[i]) / all));
  }
  constexpr std::size_t most = 8;
  const auto some = [&](const std::vector<std::string>& names) {
    return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + std::min(most, names.size()), ", "),
                       names.size() > most ? fmt::format(", ... ({} in all)", names.size()) : "");
  };
  std::string text = fmt::format("pixels in {} masks: {}, ignored {:.2g} %", survey.masks, some(shares),
                                 100 * static_cast<double>(survey.ignored) / all);
  if (!absent.empty()) text += fmt::format("; without pixels there: {}", some(absent));
  if (survey.turned > 0)
    text += fmt::format("; {} masks fit their images as turned by EXIF: data.exif=apply", survey.turned);
  if (survey.unclear > 0)
    text += fmt::format(
        "; {} images have an EXIF orientation that keeps their size, so that nothing tells whether their masks are of "
        "the turned image: data.exif says so",
        survey.unclear);
  return text;
}

}  // namespace lacuna
