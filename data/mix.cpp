#include "data/mix.h"

#include "core/error.h"
#include "core/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace lacuna {
namespace {

/// The draws for the sample at one position of an epoch's order; also a generator for the distributions of <random>.
class Draws {
 public:
  using result_type = std::uint32_t;
  Draws(std::uint64_t seed, std::int64_t epoch, std::int64_t place)
      : stream_{seed, static_cast<std::uint32_t>(epoch), random_site("data/mix")},
        next_(static_cast<std::uint64_t>(place) * draws_per_sample) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() { return stream_.bits(next_++); }

  /// A number in [0, 1).
  double uniform() { return static_cast<double>((*this)()) * 0x1p-32; }
  /// An integer in [low, high).
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + stream_.below(next_++, static_cast<std::uint32_t>(high - low));
  }
  /// A draw from Beta(alpha, alpha), by two draws from Gamma(alpha).
  double beta(double alpha) {
    std::gamma_distribution<double> gamma(alpha);
    const double x = gamma(*this), y = gamma(*this);
    return x + y > 0 ? x / (x + y) : 1;  // both underflow to 0 for a tiny alpha
  }

 private:
  static constexpr std::uint64_t draws_per_sample = 1024;
  RandomStream stream_;
  std::uint64_t next_;
};

/// A box with random sides at a random position (timm's rand_bbox_minmax).
CutBox box_of_sides(const std::vector<double>& shares, std::int64_t height, std::int64_t width, Draws& draws) {
  const auto side = [&](std::int64_t extent) {
    const auto low = static_cast<std::int64_t>(static_cast<double>(extent) * shares[0]);
    const auto high = static_cast<std::int64_t>(static_cast<double>(extent) * shares[1]);
    return draws.between(low, std::max(high, low + 1));
  };
  const std::int64_t rows = side(height), columns = side(width);
  const std::int64_t top = draws.between(0, height - rows + 1), left = draws.between(0, width - columns + 1);
  return {top, top + rows, left, left + columns};
}

SampleMix draw_mix(const MixOptions& options, std::int64_t height, std::int64_t width, Draws& draws) {
  if (draws.uniform() >= options.probability) return {};
  const bool cut = options.cuts() && (options.mixup == 0 || draws.uniform() < options.switch_probability);
  if (!cut) return {.share = draws.beta(options.mixup)};
  const CutBox box = [&] {
    if (!options.cutmix_sides.empty()) return box_of_sides(options.cutmix_sides, height, width, draws);
    const double share = draws.beta(options.cutmix);
    const std::int64_t row = draws.between(0, height), column = draws.between(0, width);
    return box_around(height, width, share, row, column);
  }();
  // The share counts only the part of the box inside the image.
  return {.share = 1 - static_cast<double>(box.area()) / static_cast<double>(height * width), .box = box};
}

/// Mixes row `y` [width, channels] of a sample with its partner's. `out` holds the sample's own row.
void mix_row(const SampleMix& mix, std::int64_t y, std::int64_t channels, const std::vector<float>& mine,
             const std::vector<float>& partners, float* out) {
  if (mix.box) {
    if (y >= mix.box->top && y < mix.box->bottom)
      std::copy(partners.begin() + mix.box->left * channels, partners.begin() + mix.box->right * channels,
                out + mix.box->left * channels);
    return;
  }
  const auto share = static_cast<float>(mix.share), rest = static_cast<float>(1 - mix.share);
  for (std::size_t i = 0; i < mine.size(); ++i) out[i] = share * mine[i] + rest * partners[i];
}

}  // namespace

CutBox box_around(std::int64_t height, std::int64_t width, double share, std::int64_t center_row,
                  std::int64_t center_column) {
  const double ratio = std::sqrt(1 - share);
  const auto edges = [&](std::int64_t extent, std::int64_t center) {
    const auto cut = static_cast<std::int64_t>(static_cast<double>(extent) * ratio);
    return std::pair(std::clamp<std::int64_t>(center - cut / 2, 0, extent),
                     std::clamp<std::int64_t>(center + (cut + 1) / 2, 0, extent));
  };
  const auto [top, bottom] = edges(height, center_row);
  const auto [left, right] = edges(width, center_column);
  return {top, bottom, left, right};
}

std::array<std::pair<std::string_view, MixMode>, 3> names_of(MixMode) {
  return {{{"batch", MixMode::batch}, {"pair", MixMode::pair}, {"element", MixMode::element}}};
}

Fields MixOptions::fields() {
  return {field("mixup", &MixOptions::mixup, up_to(100), augments,
                "mixup's alpha: the mix ratio is drawn from Beta(alpha, alpha), as 0.8; 0: off"),
          field("cutmix", &MixOptions::cutmix, up_to(100), augments, "CutMix's alpha, as 1; 0: off"),
          field("cutmix_minmax", &MixOptions::cutmix_sides, up_to(1), augments,
                "smallest and largest side of CutMix's box relative to the image, as `[0.2, 0.8]`; replaces `cutmix`"),
          field("mixup_probability", &MixOptions::probability, up_to(1), augments, "probability of mixing"),
          field("mixup_switch", &MixOptions::switch_probability, up_to(1), augments,
                "probability of CutMix if both are on"),
          field("mixup_mode", &MixOptions::mode, augments,
                "how often the mix ratio is drawn: per batch, per pair, or per sample"),
          field("mixup_off_epoch", &MixOptions::off_epoch, up_to(1e9), augments,
                "epoch from which mixing is off; 0: never")};
}

SampleFields Mixing::describe(SampleFields fields) const {
  for (SampleField& field : fields) {
    const std::int64_t classes = options_.classes;
    const bool one = field.dtype == DType::i64 && field.shape.rank() == 0;
    const bool several = field.dtype == DType::f32 && field.shape == Shape{classes};
    if (field.kind == FieldKind::pixels) {
      expect(field.dtype == DType::f32 && field.shape.rank() == 3, "mixing expects pixels f32 [H, W, C], got {} {}",
             name_of(field.dtype), field.shape);
    } else if (field.kind == FieldKind::label && (one || several)) {
      field.dtype = DType::f32;
      field.shape = {classes};
    } else {
      reject("data.mixup and data.cutmix mix pixels with labels i64 [] or f32 [{}]: they cannot mix `{}` ({}) {} {}",
             classes, field.name, name_of(field.kind), name_of(field.dtype), field.shape);
    }
  }
  expect(find_field(fields, FieldKind::pixels) != nullptr && find_field(fields, FieldKind::label) != nullptr,
         "mixing expects pixels and labels, got {}", to_string(fields));
  return fields;
}

std::vector<SampleMix> Mixing::draw(std::int64_t epoch, std::int64_t first, std::int64_t count, std::int64_t height,
                                    std::int64_t width) const {
  std::vector<SampleMix> mixes(static_cast<std::size_t>(count));
  if (options_.off_epoch > 0 && epoch >= options_.off_epoch) return mixes;
  const auto drawn = [&](std::int64_t i) {
    Draws draws(options_.seed, epoch, first + i);
    return draw_mix(options_, height, width, draws);
  };
  if (options_.mode == MixMode::batch) {
    std::ranges::fill(mixes, drawn(0));
    return mixes;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const bool as_partner = options_.mode == MixMode::pair && i >= count / 2;
    mixes[static_cast<std::size_t>(i)] = as_partner ? mixes[static_cast<std::size_t>(count - 1 - i)] : drawn(i);
  }
  return mixes;
}

namespace {

/// Writes rows of `image_mixes` from `out` on.
void set_image_mixes(std::span<const SampleMix> mixes, float* out) {
  for (const SampleMix& mix : mixes) {
    const double share = mix.box ? 1 : mix.share;
    const CutBox box = mix.box.value_or(CutBox{});
    for (const double value : {share, 1 - share, static_cast<double>(box.top), static_cast<double>(box.bottom),
                               static_cast<double>(box.left), static_cast<double>(box.right)})
      *out++ = static_cast<float>(value);
  }
}

}  // namespace

void Mixing::apply(Batch& batch, const SampleFields& fields) const {
  expect(batch.samples % (2 * options_.parts) == 0,
         "mixing expects an even number of samples in each of {} parts, got {}", options_.parts, batch.samples);
  const std::string& label = find_field(fields, FieldKind::label)->name;
  const Tensor images = batch[find_field(fields, FieldKind::pixels)->name], labels = batch[label];
  const std::int64_t size = batch.samples / options_.parts;
  const AllocationScope scope({Purpose::data, Label("loader"), {}});
  constexpr std::int64_t numbers = 6;  // columns of `image_mixes`
  const Tensor ways = Tensor::empty({batch.samples, numbers}, DType::f32, Device::cpu, Purpose::data);
  const Tensor mixed = Tensor::empty({batch.samples, options_.classes}, DType::f32, labels.device(), Purpose::data);
  for (std::int64_t begin = 0; begin < batch.samples; begin += size) {
    const std::int64_t end = begin + size;
    const std::vector<SampleMix> mixes =
        draw(batch.epoch, batch.first + begin, size, images.shape()[1], images.shape()[2]);
    if (images.dtype() == DType::u8)
      set_image_mixes(mixes, ways.data<float>() + begin * ways.shape()[1]);
    else
      mix_images(images.leading(begin, end), mixes);
    mixed.leading(begin, end).copy_from(mixed_labels(labels.leading(begin, end), options_.classes, mixes));
  }
  batch.set(label, mixed);
  if (images.dtype() == DType::u8) batch.set("image_mixes", ways);
}

void mix_images(const Tensor& images, std::span<const SampleMix> mixes) {
  const std::int64_t samples = images.shape()[0], height = images.shape()[1], channels = images.shape()[3];
  expect(std::ssize(mixes) == samples, "{} images were to be mixed in {} ways", samples, mixes.size());
  const std::int64_t row = images.shape()[2] * channels;
  const auto changes = [](const SampleMix& mix) { return mix.box ? mix.box->area() > 0 : mix.share != 1; };
  std::vector<float> first, second;  // copies of the unmixed rows
  for (std::int64_t i = 0; i < samples / 2; ++i) {
    const SampleMix &one = mixes[static_cast<std::size_t>(i)],
                    &other = mixes[static_cast<std::size_t>(samples - 1 - i)];
    if (!changes(one) && !changes(other)) continue;
    float* const images_of_one = images.data<float>() + i * height * row;
    float* const images_of_other = images.data<float>() + (samples - 1 - i) * height * row;
    for (std::int64_t y = 0; y < height; ++y) {
      float *const a = images_of_one + y * row, *const b = images_of_other + y * row;
      first.assign(a, a + row);
      second.assign(b, b + row);
      mix_row(one, y, channels, first, second, a);
      mix_row(other, y, channels, second, first, b);
    }
  }
}

Tensor mixed_labels(const Tensor& labels, std::int64_t classes, std::span<const SampleMix> mixes) {
  const std::int64_t samples = labels.shape()[0];
  const AllocationScope scope({Purpose::data, Label("loader"), {}});
  Tensor mixed = Tensor::zeros({samples, classes}, DType::f32, labels.device(), Purpose::data);
  if (labels.device() == Device::meta) return mixed;
  const auto add = [&](std::int64_t to, std::int64_t from, double share) {
    float* const row = mixed.data<float>() + to * classes;
    if (labels.dtype() == DType::i64) {
      const std::int64_t label = labels.data<std::int64_t>()[from];
      if (label < 0 || label >= classes)
        reject("the label of sample {} is {}: with {} classes it has to lie in 0 to {}", from, label, classes,
               classes - 1);
      row[label] += static_cast<float>(share);
    } else {
      const float* const own = labels.data<float>() + from * classes;
      for (std::int64_t c = 0; c < classes; ++c) row[c] += static_cast<float>(share) * own[c];
    }
  };
  for (std::int64_t i = 0; i < samples; ++i) {
    const double share = mixes.empty() ? 1 : mixes[static_cast<std::size_t>(i)].share;
    add(i, i, share);
    if (share != 1) add(i, samples - 1 - i, 1 - share);
  }
  return mixed;
}

}  // namespace lacuna
