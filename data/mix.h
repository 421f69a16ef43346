// Mixup and CutMix: sample i of a batch is mixed with its partner N − 1 − i, the sample at its place in the reversed
// batch, and labels are mixed in the same ratio (Zhang et al. 2018; Yun et al. 2019; timm.data.Mixup of timm 1.0.31).
#pragma once

#include "core/schema.h"
#include "data/sample.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lacuna {

/// Rows [top, bottom) and columns [left, right) of an image.
struct CutBox {
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
  std::int64_t area() const { return (bottom - top) * (right - left); }
  bool operator==(const CutBox&) const = default;
};

/// CutMix's box, which keeps `share` of the image: its sides are √(1 − share) of the image's, and it is clipped to the
/// image around its centre.
CutBox box_around(std::int64_t height, std::int64_t width, double share, std::int64_t center_row,
                  std::int64_t center_column);

/// How one sample is mixed: it has weight `share`, its partner 1 − share. With a box (CutMix), the partner's pixels
/// replace those in the box; without one (mixup), all pixels are blended.
struct SampleMix {
  double share = 1;
  std::optional<CutBox> box{};
};

enum class MixMode : std::uint8_t {
  batch,   // one draw for the whole batch
  pair,    // one draw per sample and its partner
  element  // one draw per sample
};
std::array<std::pair<std::string_view, MixMode>, 3> names_of(MixMode);

struct MixOptions {
  double mixup = 0;   // α of the Beta(α, α) distribution of shares; 0: no mixup
  double cutmix = 0;  // the same for CutMix
  std::vector<double>
      cutmix_sides{};      // least and largest box side, relative to the image; if set, CutMix draws sides, not shares
  double probability = 1;  // probability that a batch, pair or sample is mixed
  double switch_probability = 0.5;  // probability of CutMix if both are on
  MixMode mode = MixMode::batch;
  std::int64_t off_epoch = 0;  // first epoch, from 0, without mixing; 0: always mixed
  std::int64_t parts = 1;      // micro-batches of a batch; samples are mixed only within one
  std::int64_t classes = 0;
  std::uint64_t seed = 1;

  static Fields fields();
  bool cuts() const { return cutmix > 0 || !cutmix_sides.empty(); }
  bool any() const { return mixup > 0 || cuts(); }
};

/// Mixes pixels f32 [N, H, W, C] (for u8 pixels it adds `image_mixes`, and the device mixes) and labels, i64 [N] or
/// multi-label f32 [N, classes], which become probabilities f32 [N, classes]. The draws are a function of (seed, epoch,
/// position in the epoch's order).
class Mixing {
 public:
  explicit Mixing(MixOptions options) : options_(std::move(options)) {}

  /// The fields of a mixed batch. Rejects fields of other kinds than pixels and labels.
  SampleFields describe(SampleFields fields) const;
  std::int64_t parts() const { return options_.parts; }
  /// Mixes a batch of `fields`; each of its parts must have an even number of samples.
  void apply(Batch& batch, const SampleFields& fields) const;
  /// Draws how the samples [first, first + count) of an epoch's order are mixed.
  std::vector<SampleMix> draw(std::int64_t epoch, std::int64_t first, std::int64_t count, std::int64_t height,
                              std::int64_t width) const;

 private:
  MixOptions options_;
};

/// Mixes images f32 [N, H, W, C] in place. mixes: [N].
void mix_images(const Tensor& images, std::span<const SampleMix> mixes);
/// Converts labels i64 [N] or f32 [N, classes] to mixed f32 [N, classes]. mixes: [N]; empty: nothing is mixed.
Tensor mixed_labels(const Tensor& labels, std::int64_t classes, std::span<const SampleMix> mixes = {});

}  // namespace lacuna
