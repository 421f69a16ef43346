// Mixup and CutMix: every sample of a batch is mixed with its partner in the reversed batch, i with N − 1 − i, and the
// labels in the same shares (Zhang et al. 2018; Yun et al. 2019; timm.data.Mixup of timm 1.0.31).
#pragma once

#include "data/sample.h"

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

/// CutMix's box, which leaves `share` of the image: sides √(1 − share) of the image's around a centre, clipped.
CutBox box_around(std::int64_t height, std::int64_t width, double share, std::int64_t center_row,
                  std::int64_t center_column);

/// How one sample is mixed: `share` of it stays, the rest is its partner's. With a box the partner's pixels stand in
/// the box; otherwise all pixels are blended.
struct SampleMix {
  double share = 1;
  std::optional<CutBox> box{};
};

enum class MixMode : std::uint8_t {
  batch,   // one draw for all samples
  pair,    // one for a sample and its partner
  element  // one for each sample
};
/// The mode named `batch`, `pair` or `element`.
std::optional<MixMode> mix_mode(std::string_view name);

struct MixOptions {
  double mixup = 0;                    // α of the Beta(α, α) that shares are drawn from; 0: no mixup
  double cutmix = 0;                   // the same of CutMix
  std::vector<double> cutmix_sides{};  // lowest and highest share of the image's sides: CutMix draws sides, not shares
  double probability = 1;              // with which a batch, pair or sample is mixed
  double switch_probability = 0.5;     // of CutMix, where both are on
  MixMode mode = MixMode::batch;
  std::int64_t off_epoch = 0;  // from this epoch on, counted from 0, nothing is mixed; 0: always mixed
  std::int64_t parts = 1;      // of a batch, as its micro-batches, whose samples are mixed among each other
  std::int64_t classes = 0;
  std::uint64_t seed = 1;

  bool cuts() const { return cutmix > 0 || !cutmix_sides.empty(); }
  bool any() const { return mixup > 0 || cuts(); }
};

/// Mixes `images` f32 [N, H, W, C], or says how in `image_mixes` where they are u8, and `labels`, which become
/// probabilities f32 [N, classes]: i64 [N], or f32 [N, classes] of several labels. The draws are a function of (seed,
/// epoch, place in the epoch's order).
class Mixing {
 public:
  explicit Mixing(MixOptions options) : options_(std::move(options)) {}

  /// The fields of a mixed batch. Refuses others than images and labels of classes.
  SampleFields describe(SampleFields fields) const;
  std::int64_t parts() const { return options_.parts; }
  /// Mixes a batch whose parts have an even number of samples each.
  void apply(Batch& batch) const;
  /// How the samples [first, first + count) of an epoch's order are mixed.
  std::vector<SampleMix> draw(std::int64_t epoch, std::int64_t first, std::int64_t count, std::int64_t height,
                              std::int64_t width) const;

 private:
  MixOptions options_;
};

/// Mixes images f32 [N, H, W, C] in place. mixes: [N].
void mix_images(const Tensor& images, std::span<const SampleMix> mixes);
/// f32 [N, classes] of labels i64 [N] or f32 [N, classes]. mixes: [N]; empty: nothing is mixed.
Tensor mixed_labels(const Tensor& labels, std::int64_t classes, std::span<const SampleMix> mixes = {});

}  // namespace lacuna
