// Swin transformers (Liu et al. 2021) and Swin V2 (Liu et al. 2022) as timm has them.
#pragma once

#include "models/hyper_parameters.h"
#include "models/image_model.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/norm.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace lacuna {

struct SwinOptions : ImageOptions {
  bool second = false;  // V2: cosine attention, norms after the residual branches
  std::int64_t patch_size = 4;
  std::int64_t embed_dim = 96;                           // in the first stage; each later stage has twice as many
  std::vector<std::int64_t> depths = {2, 2, 6, 2};       // blocks per stage
  std::vector<std::int64_t> num_heads = {3, 6, 12, 24};  // per stage
  Sides window{7, 7};                                    // height and width in tokens
  std::vector<std::int64_t> pretrained_windows{};        // V2: per stage, 0: its own; empty: all 0
  bool always_partition = false;                         // windows stay as large and shifted on a map that is no larger
  bool pad_before_shift = false;  // maps that are no multiples of the window, as transformers pads them; V2: and
                                  // windows for sides of maps that are rounded down
  double mlp_ratio = 4;
  bool qkv_bias = true;
  double drop_rate = 0, proj_drop_rate = 0, drop_path_rate = 0;

  static Fields fields();
  void check(HyperProblems& problems) const;
};

struct SwinV2Options : SwinOptions {
  SwinV2Options() {
    second = true;
    image_size = 256;
    window = {8, 8};
  }
  static Fields fields();
  void check(HyperProblems& problems);
};

/// timm's SwinTransformer and SwinTransformerV2: the same parameter names, shapes and initial distributions. Maps need
/// not be multiples of the window, nor even before they are merged. Where an axis of a stage's map is no longer than
/// the window, the window shrinks to it and is not shifted along it. `always_partition` keeps window and shift. As a
/// backbone gives the map of each stage, before it is merged.
class SwinTransformer final : public ImageModel {
 public:
  SwinTransformer(const ModelContext& context, const SwinOptions& options);

  /// Resamples bias tables of other windows as timm's set_input_size does.
  Tensor adapt(const Parameter& parameter, const Tensor& stored, Library library) const override;

  std::vector<MapShape> map_shapes() const override;
  std::vector<Variable> maps(Variable images) override;

 private:
  class Block;
  class Stage;

  std::vector<std::unique_ptr<Stage>> make_stages(const SwinOptions& options);
  Variable embed(Variable images);
  Variable classify(Variable images) override;

  std::int64_t patch_size_;
  nn::Conv2d patch_embedding_;
  nn::LayerNorm patch_norm_;
  std::vector<std::size_t> wanted_;  // stages whose maps the backbone gives
  std::vector<std::unique_ptr<Stage>> stages_;
  std::optional<nn::LayerNorm> norm_;
  std::optional<nn::Dropout> head_dropout_;
  std::optional<nn::Linear> head_;
};

}  // namespace lacuna
