#include "models/vit.h"

#include "models/registry.h"
#include "nn/init.h"
#include "nn/region.h"
#include "ops/arithmetic.h"
#include "ops/pool.h"
#include "ops/slicing.h"

#include <cmath>

namespace lacuna {
namespace {

/// timm's init_weights_vit_timm: every linear layer, the head included.
nn::WeightInit linear_init() { return {init::truncated_normal(.02), init::constant(0)}; }

/// Stochastic depth grows linearly from the first block (0) to the last.
double drop_path_of(const VitOptions& options, std::int64_t block) {
  if (options.depth == 1) return 0;
  return options.drop_path_rate * static_cast<double>(block) / static_cast<double>(options.depth - 1);
}

std::int64_t tokens(const VitOptions& options) {
  const std::int64_t side = options.image_size / options.patch_size;
  return side * side + (options.class_token ? 1 : 0);
}

}  // namespace

class VisionTransformer::Block final : public Module {
 public:
  Block(Module& parent, std::string_view name, const VitOptions& options, double drop_path)
      : Module(parent, name),
        norm1_(*this, "norm1", options.embed_dim),
        attention_(*this, "attn", options.embed_dim,
                   {.heads = options.num_heads,
                    .qkv_bias = options.qkv_bias,
                    .attention_dropout = options.attn_drop_rate,
                    .projection_dropout = options.proj_drop_rate,
                    .form = options.attention,
                    .init = linear_init()}),
        drop_path1_(*this, "drop_path1", drop_path),
        norm2_(*this, "norm2", options.embed_dim),
        mlp_(*this, "mlp", options.embed_dim,
             static_cast<std::int64_t>(static_cast<double>(options.embed_dim) * options.mlp_ratio),
             {.activation = options.activation, .dropout = options.proj_drop_rate, .init = linear_init()}),
        drop_path2_(*this, "drop_path2", drop_path) {}

  /// x [B, L, embed_dim] to the first `tokens` of them, or to all (0).
  Variable forward(Variable x, std::int64_t tokens) const {
    return run_region(*this, std::move(x), [this, tokens](Variable in) { return transform(std::move(in), tokens); });
  }

 private:
  Variable transform(Variable x, std::int64_t tokens) const {
    const Scope scope(*this);
    Variable mixed = drop_path1_.forward(attention_.forward(norm1_.forward(x), {.queries = tokens}));
    if (const std::int64_t length = x.shape()[1]; tokens != 0 && tokens != length)
      x = apply(Slice{.axis = 1, .begin = 0, .end = tokens, .extent = length}, std::move(x));
    x = apply(Add{}, std::move(x), std::move(mixed));
    Variable transformed = drop_path2_.forward(mlp_.forward(norm2_.forward(x)));
    return apply(Add{}, std::move(x), std::move(transformed));
  }

  nn::LayerNorm norm1_;
  nn::Attention attention_;
  nn::DropPath drop_path1_;
  nn::LayerNorm norm2_;
  nn::Mlp mlp_;
  nn::DropPath drop_path2_;
};

VisionTransformer::VisionTransformer(const ModelContext& context, const VitOptions& options)
    : ImageModel(context, {options.image_size, options.in_channels, options.num_classes, "head"}),
      patches_(tokens(options) - (options.class_token ? 1 : 0)),
      embed_dim_(options.embed_dim),
      average_pool_(options.average_pool),
      patch_embedding_(*this, "patch_embed.proj", options.in_channels, options.embed_dim,
                       {.kernel = options.patch_size, .stride = options.patch_size}),
      positions_(*this, "pos_embed", {1, tokens(options), options.embed_dim}, init::truncated_normal(.02)),
      position_dropout_(*this, "pos_drop", options.pos_drop_rate),
      blocks_(make_blocks(options)),
      // As in timm, a norm behind the pooling has another name than one before it.
      norm_(*this, options.average_pool ? "fc_norm" : "norm", options.embed_dim),
      head_dropout_(*this, "head_drop", options.drop_rate),
      head_(*this, "head", options.embed_dim, options.num_classes, {.init = linear_init()}) {
  positions_.exclude_from_decay();
  if (!options.class_token) return;
  class_token_.emplace(*this, "cls_token", Shape{1, 1, embed_dim_}, init::normal(1e-6));
  class_token_->exclude_from_decay();
}

std::vector<std::unique_ptr<VisionTransformer::Block>> VisionTransformer::make_blocks(const VitOptions& options) {
  std::vector<std::unique_ptr<Block>> blocks;
  for (std::int64_t i = 0; i < options.depth; ++i)
    blocks.push_back(std::make_unique<Block>(*this, "blocks." + std::to_string(i), options, drop_path_of(options, i)));
  return blocks;
}

Variable VisionTransformer::embed(Variable images) const {
  const std::int64_t batch = images.shape()[0];
  Variable x = patch_embedding_.forward(std::move(images)).reshape({batch, patches_, embed_dim_});
  if (class_token_) {
    Variable token = apply(Expand{.count = batch, .dtype = x.dtype()}, class_token_->variable());  // [B, 1, embed_dim]
    x = apply(Concat{.axis = 1, .extents = {1, patches_}}, std::move(token), std::move(x));
  }
  return position_dropout_.forward(
      apply(AddBroadcast{.shape = positions_.shape()}, std::move(x), positions_.variable()));
}

Variable VisionTransformer::classify(Variable images) {
  const Scope scope(*this);
  Variable x = embed(std::move(images));  // [B, L, embed_dim]
  const std::int64_t batch = x.shape()[0];
  const Block* const last = blocks_.empty() ? nullptr : blocks_.back().get();
  x = run_sequence(blocks_, std::move(x), [this, last](const Block& block, Variable in) {
    return block.forward(std::move(in), &block == last && !average_pool_ ? 1 : 0);
  });
  if (average_pool_) {
    if (class_token_)
      x = apply(Slice{.axis = 1, .begin = 1, .end = patches_ + 1, .extent = patches_ + 1}, std::move(x));
    x = apply(GlobalAvgPool{.shape = {batch, patches_, embed_dim_}}, std::move(x));
  } else {
    x = x.reshape({batch, embed_dim_});
  }
  return head_.forward(head_dropout_.forward(norm_.forward(std::move(x))));
}

VitOptions read_vit_options(HyperParameters& parameters) {
  constexpr std::int64_t largest_extent = 1 << 16;
  VitOptions options;
  options.image_size = parameters.integer("image_size", 224, 1, largest_extent);
  options.patch_size = parameters.integer("patch_size", 16, 1, largest_extent);
  options.in_channels = parameters.integer("in_channels", 3, 1, largest_extent);
  options.num_classes = parameters.integer("num_classes", 1000, 1, 1 << 24);
  options.embed_dim = parameters.integer("embed_dim", 768, 1, largest_extent);
  options.depth = parameters.integer("depth", 12, 1, 4096);
  options.num_heads = parameters.integer("num_heads", 12, 1, largest_extent);
  options.mlp_ratio = parameters.real("mlp_ratio", 4, 0, 1024);
  options.qkv_bias = parameters.flag("qkv_bias", true);
  options.class_token = parameters.flag("class_token", true);
  options.average_pool = parameters.choice("global_pool", "token", {"token", "avg"}) == "avg";
  options.drop_rate = parameters.real("drop_rate", 0, 0, 1);
  options.pos_drop_rate = parameters.real("pos_drop_rate", 0, 0, 1);
  options.proj_drop_rate = parameters.real("proj_drop_rate", 0, 0, 1);
  options.attn_drop_rate = parameters.real("attn_drop_rate", 0, 0, 1);
  options.drop_path_rate = parameters.real("drop_path_rate", 0, 0, 1);
  if (parameters.choice("activation", "gelu", {"gelu", "gelu_tanh"}) == "gelu_tanh")
    options.activation = Gelu::Form::tanh;
  if (parameters.choice("attention", "fused", {"fused", "chain"}) == "chain")
    options.attention = nn::AttentionForm::chain;

  if (options.image_size % options.patch_size != 0)
    parameters.add_problem("patch_size", fmt::format("`patch_size` {} does not divide `image_size` {}",
                                                     options.patch_size, options.image_size));
  if (options.embed_dim % options.num_heads != 0)
    parameters.add_problem("num_heads", fmt::format("`num_heads` {} does not divide `embed_dim` {}", options.num_heads,
                                                    options.embed_dim));
  if (static_cast<double>(options.embed_dim) * options.mlp_ratio < 1)
    parameters.add_problem("mlp_ratio", fmt::format("`mlp_ratio` {} of `embed_dim` {} leaves no hidden unit",
                                                    options.mlp_ratio, options.embed_dim));
  if (!options.class_token && !options.average_pool)
    parameters.add_problem("global_pool", "`global_pool: token` reads the class token, but `class_token` is false");
  return options;
}

namespace {

const RegisterFamily vit("vit", [](HyperParameters& parameters) -> ModelFactory {
  return [options = read_vit_options(parameters)](const ModelContext& context) {
    return std::make_unique<VisionTransformer>(context, options);
  };
});

std::vector<HyperParameter> patch16(std::int64_t embed_dim, std::int64_t depth, std::int64_t num_heads,
                                    std::int64_t image_size = 224) {
  return {{"image_size", image_size},
          {"patch_size", std::int64_t{16}},
          {"embed_dim", embed_dim},
          {"depth", depth},
          {"num_heads", num_heads}};
}

const RegisterPreset presets[] = {
    {"vit_tiny_patch16_224", "vit", patch16(192, 12, 3)},
    {"vit_small_patch16_224", "vit", patch16(384, 12, 6)},
    {"vit_base_patch16_224", "vit", patch16(768, 12, 12)},
    {"vit_base_patch16_384", "vit", patch16(768, 12, 12, 384)},
    {"vit_large_patch16_224", "vit", patch16(1024, 24, 16)},
    {"deit_tiny_patch16_224", "vit", patch16(192, 12, 3)},
    {"deit_small_patch16_224", "vit", patch16(384, 12, 6)},
    {"deit_base_patch16_224", "vit", patch16(768, 12, 12)},
    {"vit_cifar",
     "vit",
     {{"image_size", std::int64_t{32}},
      {"patch_size", std::int64_t{4}},
      {"embed_dim", std::int64_t{192}},
      {"depth", std::int64_t{9}},
      {"num_heads", std::int64_t{3}},
      {"num_classes", std::int64_t{10}}}},
};

}  // namespace
}  // namespace lacuna
