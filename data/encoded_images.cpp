#include "data/encoded_images.h"

#include "core/error.h"
#include "data/images/image_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

namespace lacuna {

std::int64_t image_channels(const SampleFields& fields) {
  const SampleField* const images = find_images(fields);
  if (images == nullptr) return 0;
  return images->kind == FieldKind::image_file ? 3 : images->shape.back();
}

DecoderNeed decoder_need(const Dataset& dataset, bool apply_exif, std::int64_t most) {
  DecoderNeed need;
  if (find_field(dataset.info().fields, FieldKind::image_file) == nullptr) return need;
  const std::string name = find_images(dataset.info().fields)->name;
  const std::int64_t count = std::min(most, dataset.size());
  Sample sample;
  for (std::int64_t i = 0; i < count; ++i) try {
      sample.begin(0);
      dataset.read(i * dataset.size() / count, sample);
      const Tensor& file = sample[name];
      need.file = std::max(need.file, file.count());
      const auto bytes = std::span(file.data<const std::uint8_t>(), static_cast<std::size_t>(file.count()));
      const auto reader = open_image(bytes, {.apply_exif = apply_exif});
      need.held = std::max(need.held, reader->held_bytes());
      need.side = std::max({need.side, reader->height(), reader->width()});
    } catch (const DamagedSample&) {  // is met and told where it is read
    }
  return need;
}

DatasetInfo encoded_images_info(std::string name, const DatasetOptions& options, std::int64_t held) {
  if (options.size() > held)
    reject("data.{0}: {1} images were asked for, {2} holds {3}: data.{0}=0 takes all",
           options.split == Split::train ? "train_size" : "val_size", options.size(), options.path.native(), held);
  return {.name = std::move(name),
          .size = options.size() > 0 ? options.size() : held,
          .mean = {0.485F, 0.456F, 0.406F},
          .deviation = {0.229F, 0.224F, 0.225F}};
}

std::string name_of_files(const DatasetOptions& options) {
  std::string name = fmt::format("{}\n{}\n{}\n{}\n{}", options.path.native(), options.classes, options.seed,
                                 static_cast<int>(options.hold_out), fmt::ptr(options.held_out_before));
  for (const auto& [key, value] : options.settings) name += fmt::format("\n{}: {}", key, to_yaml(value));
  return name;
}

HoldOutOptions hold_out_of(const DatasetOptions& options, double fraction) {
  return {options.hold_out, fraction, options.seed, options.held_out_before};
}

EncodedImages::EncodedImages(DatasetInfo info, std::int64_t held, std::uint64_t seed) : Dataset(std::move(info)) {
  if (size() < held) part_.emplace(held, RandomStream{seed, 0, random_site("data/part")});
}

std::span<const std::uint8_t> EncodedImages::read_image(const FileTree& tree, std::int64_t file, Sample& sample) const {
  const std::string& name = find_images(info().fields)->name;
  tree.read(file, [&](std::int64_t bytes) {
    Tensor image = sample.make(name, {bytes}, DType::u8);
    const std::span place(image.data<std::uint8_t>(), static_cast<std::size_t>(bytes));
    sample.set(name, std::move(image));
    return place;
  });
  const Tensor& image = sample[name];
  return {image.data<const std::uint8_t>(), static_cast<std::size_t>(image.count())};
}

void EncodedImages::read_sample(std::int64_t index, Sample& sample) const {
  sample.origin = origin(index);
  try {
    read_file(index, sample);
  } catch (const Error& error) {  // a file that has vanished is as good as a damaged one
    if (error.fault() != Fault::input) throw;
    std::string_view why = error.what();
    if (why.starts_with(sample.origin + ": ")) why.remove_prefix(sample.origin.size() + 2);
    throw DamagedSample(std::string(why));
  }
}

}  // namespace lacuna
