// Blocks of pyramid vision transformers: attention whose keys and values are fewer than its queries.
#pragma once

#include "models/hyper_parameters.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/mlp.h"
#include "nn/norm.h"

#include <memory>
#include <optional>
#include <vector>

namespace lacuna {

struct PvtOptions : ImageOptions {
  std::vector<std::int64_t> embed_dims{64, 128, 320, 512}, depths{2, 2, 2, 2}, num_heads{1, 2, 5, 8},
      sr_ratios{8, 4, 2, 1};
  std::vector<double> mlp_ratios{8, 8, 4, 4};
  bool qkv_bias = true;
  double norm_eps = 1e-6;
  double drop_rate = 0, proj_drop_rate = 0, attn_drop_rate = 0, drop_path_rate = 0;

  static Fields fields();
  /// `pools`: keys and values are of 7×7 means, whatever sr_ratios says.
  void check(HyperProblems& problems, bool pools = false) const;
};

/// Block `number` of stage `stage`.
struct PvtBlockPlace {
  std::size_t stage;
  std::int64_t number;
  bool pools = false;  // keys and values are of the map's means over 7×7 parts (PVTv2-Li)
  bool mixes = false;  // the MLP has a depthwise 3×3 convolution inside (PVTv2)
};

/// x + attention(norm1(x)), then + mlp(norm2(x)). Keys and values are of the map that a convolution of kernel and
/// stride `sr_ratio` leaves.
class PvtBlock final : public Module {
 public:
  PvtBlock(Module& parent, std::string_view name, const PvtOptions& options, const PvtBlockPlace& place);
  /// x [B, L, channels], whose last height · width tokens are a map.
  Variable forward(Variable x, std::int64_t height, std::int64_t width) const;

 private:
  /// Attention and its projection, plus `residual`.
  Variable attend(Variable x, std::int64_t height, std::int64_t width, Variable residual) const;
  Variable transform(Variable x, std::int64_t height, std::int64_t width) const;

  std::int64_t heads_;
  bool pools_;
  nn::LayerNorm norm1_;
  nn::Linear q_, kv_;
  std::optional<nn::Conv2d> reduction_;
  std::optional<nn::LayerNorm> reduced_norm_;
  double attention_dropout_;
  nn::Linear projection_;
  nn::Dropout projection_dropout_;
  nn::DropPath drop_path1_;
  nn::LayerNorm norm2_;
  std::unique_ptr<nn::Mlp> mlp_;  // or, of PVTv2:
  std::unique_ptr<nn::Linear> fc1_, fc2_;
  std::unique_ptr<nn::Conv2d> mixing_;
  nn::Dropout mlp_dropout1_, mlp_dropout2_;
  nn::DropPath drop_path2_;
};

}  // namespace lacuna
