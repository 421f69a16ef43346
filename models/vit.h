// Vision transformers (Dosovitskiy et al. 2021) as timm has them, DeiT's included (Touvron et al. 2021).
#pragma once

#include "models/hyper_parameters.h"
#include "models/image_model.h"
#include "nn/attention.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/mlp.h"
#include "nn/norm.h"

#include <memory>
#include <optional>
#include <vector>

namespace lacuna {

struct VitOptions {
  std::int64_t image_size = 224, patch_size = 16, in_channels = 3, num_classes = 1000;
  std::int64_t embed_dim = 768, depth = 12, num_heads = 12;
  double mlp_ratio = 4;
  bool qkv_bias = true;
  bool class_token = true;
  bool average_pool = false;  // the head reads the mean of the patch tokens; otherwise the class token
  double drop_rate = 0;       // before the head
  double pos_drop_rate = 0, proj_drop_rate = 0, attn_drop_rate = 0, drop_path_rate = 0;
  Gelu::Form activation = Gelu::Form::erf;
  nn::AttentionForm attention = nn::AttentionForm::fused;
};

/// Reads and checks; what is wrong is noted in `parameters`.
VitOptions read_vit_options(HyperParameters& parameters);

/// timm's VisionTransformer: the same parameter names, shapes and initial distributions.
///
/// What the head does not read is not computed. With a class token to read, only that token's query asks in the last
/// block, and everything behind that attention (projection, residual, norm, MLP, final norm) runs on [B, 1, embed_dim];
/// logits and gradients are those of the whole computation but for rounding.
class VisionTransformer final : public ImageModel {
 public:
  VisionTransformer(const ModelContext& context, const VitOptions& options);

 private:
  /// x + attention(norm1(x)), then + mlp(norm2).
  class Block;

  std::vector<std::unique_ptr<Block>> make_blocks(const VitOptions& options);
  Variable classify(Variable images) override;
  /// Patches [B, L, embed_dim] with the class token in front and positions added.
  Variable embed(Variable images) const;

  std::int64_t patches_, embed_dim_;
  bool average_pool_;
  nn::Conv2d patch_embedding_;
  std::optional<Parameter> class_token_;  // [1, 1, embed_dim]
  Parameter positions_;                   // [1, L, embed_dim]
  nn::Dropout position_dropout_;
  std::vector<std::unique_ptr<Block>> blocks_;
  nn::LayerNorm norm_;
  nn::Dropout head_dropout_;
  nn::Linear head_;
};

}  // namespace lacuna
