// Vision transformers (Dosovitskiy et al. 2021) as timm has them: those of DeiT (Touvron et al. 2021), with its
// distilled models, DeiT III (2022), DINOv2 (Oquab et al. 2023), and the image towers of CLIP and SigLIP.
#pragma once

#include "models/hyper_parameters.h"
#include "models/image_model.h"
#include "nn/attention.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/mlp.h"
#include "nn/norm.h"

#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace lacuna {

struct VitOptions : ImageOptions {
  enum class Pool : std::uint8_t {
    token,       // the head reads the class token
    mean,        // the mean of the patch tokens
    token_mean,  // the class token and the mean of the patch tokens, concatenated (DINOv2's linear evaluation)
    map          // attention pooling with a learned query
  };
  enum class Mlp : std::uint8_t { plain, swiglu };

  std::int64_t patch_size = 16, embed_dim = 768, depth = 12, num_heads = 12;
  double mlp_ratio = 4;
  bool qkv_bias = true;
  bool class_token = true;
  bool distilled = false;  // a distillation token with a head of its own
  Pool pool = Pool::token;
  std::int64_t reg_tokens = 0;
  bool no_embed_class = false;
  double init_values = 0;
  bool pre_norm = false;
  Mlp mlp = Mlp::plain;
  double norm_eps = 1e-6;
  double drop_rate = 0, pos_drop_rate = 0, proj_drop_rate = 0, attn_drop_rate = 0, drop_path_rate = 0;
  nn::Activation activation = nn::Activation::gelu;
  nn::AttentionForm attention = nn::AttentionForm::fused;

  static Fields fields();
  void check(HyperProblems& problems) const;
};
std::array<std::pair<std::string_view, VitOptions::Pool>, 4> names_of(VitOptions::Pool);
std::array<std::pair<std::string_view, VitOptions::Mlp>, 2> names_of(VitOptions::Mlp);

/// The options of distilled models: both heads read their tokens.
struct DistilledVitOptions : VitOptions {
  DistilledVitOptions() { distilled = true; }
  static Fields fields();
};

/// timm's VisionTransformer: the same parameter names, shapes and initial distributions.
///
/// Tokens that no head reads are not computed. With n tokens to read, only their queries ask in the last block, and
/// everything behind that attention (projection, residual, norm, MLP, final norm) runs on [B, n, embed_dim]; logits and
/// gradients are those of the whole computation but for rounding.
///
/// A distilled model has three outputs: `logits_class` and `logits_distilled` of the two heads and `logits`, their
/// mean.
///
/// As a backbone gives the patch tokens behind each block, through the final norm if maps are normed.
class VisionTransformer final : public ImageModel {
 public:
  VisionTransformer(const ModelContext& context, const VitOptions& options);

  /// Resamples positions of another number of patches as the library does.
  Tensor adapt(const Parameter& parameter, const Tensor& stored, Library library) const override;

  std::vector<MapShape> map_shapes() const override;
  std::vector<Variable> maps(Variable images) override;
  bool norms_maps() const override { return norm_.has_value(); }

 private:
  class Block;
  class AttentionPool;

  std::vector<std::unique_ptr<Block>> make_blocks(const VitOptions& options);
  Variable classify(Variable images) override;
  Outputs run(Variable images) override;
  /// Patches [B, L, embed_dim] behind the other tokens, with positions added.
  Variable embed(Variable images) const;
  /// The features for the heads: [B, n, embed_dim] of n tokens, or [B, width of the head].
  Variable features(Variable images) const;

  VitOptions options_;
  std::int64_t patches_, prefix_;  // tokens of the image, and others
  nn::Conv2d patch_embedding_;
  std::vector<std::unique_ptr<Parameter>> prefix_tokens_;  // [1, n, embed_dim] of each kind
  Parameter positions_;                                    // [1, L, embed_dim]
  nn::Dropout position_dropout_;
  std::unique_ptr<nn::LayerNorm> pre_norm_;
  std::vector<std::size_t> wanted_;  // blocks whose maps the backbone gives
  std::vector<std::unique_ptr<Block>> blocks_;
  std::optional<nn::LayerNorm> norm_;
  std::unique_ptr<AttentionPool> attention_pool_;
  std::optional<nn::Dropout> head_dropout_, distillation_dropout_;  // each draws a mask of its own
  std::optional<nn::Linear> head_;
  std::optional<nn::Linear> distillation_head_;
};

}  // namespace lacuna
