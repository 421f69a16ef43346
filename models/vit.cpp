#include "models/vit.h"

#include "models/io/resample.h"
#include "models/registry.h"
#include "nn/functional.h"
#include "nn/init.h"
#include "nn/region.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/shapes/slicing.h"

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

/// timm's init_weights_vit_timm: every linear layer, the head included.
nn::WeightInit vit_linear() { return {init::truncated_normal(.02), init::constant(0)}; }

/// The grid of patches.
ImageSize grid_of(const VitOptions& options) {
  return {options.image_size.height / options.patch_size, options.image_size.width / options.patch_size};
}
/// Tokens that are no patches: class, distillation and register tokens.
std::int64_t prefix_of(const VitOptions& options) {
  return (options.class_token ? 1 : 0) + (options.distilled ? 1 : 0) + options.reg_tokens;
}
/// Values that a head reads.
std::int64_t head_width(const VitOptions& options) {
  return options.pool == VitOptions::Pool::token_mean ? 2 * options.embed_dim : options.embed_dim;
}
/// Tokens that the heads read one by one; 0: what is pooled from all.
std::int64_t tokens_read(const VitOptions& options) {
  if (options.pool != VitOptions::Pool::token) return 0;
  return options.distilled ? 2 : 1;
}

nn::MlpOptions mlp_options(const VitOptions& options) {
  return {.activation = options.activation,
          .gated = options.mlp == VitOptions::Mlp::swiglu,
          .dropout = options.proj_drop_rate,
          .init = vit_linear()};
}
std::int64_t mlp_width(const VitOptions& options) {
  return static_cast<std::int64_t>(static_cast<double>(options.embed_dim) * options.mlp_ratio);
}

Variable first_tokens(Variable x, std::int64_t count) {
  const std::int64_t length = x.shape()[1];
  return count == length ? x : apply(Slice{.axis = 1, .begin = 0, .end = count, .extent = length}, std::move(x));
}

}  // namespace

/// x + attention(norm1(x)), then + mlp(norm2), each branch scaled where the model has layer scale.
class VisionTransformer::Block final : public Module {
 public:
  Block(Module& parent, std::string_view name, const VitOptions& options, double drop_path)
      : Module(parent, name),
        norm1_(*this, "norm1", options.embed_dim, options.norm_eps),
        attention_(*this, "attn", options.embed_dim,
                   {.heads = options.num_heads,
                    .qkv_bias = options.qkv_bias,
                    .attention_dropout = options.attn_drop_rate,
                    .projection_dropout = options.proj_drop_rate,
                    .form = options.attention,
                    .init = vit_linear()}),
        drop_path1_(*this, "drop_path1", drop_path),
        norm2_(*this, "norm2", options.embed_dim, options.norm_eps),
        mlp_(*this, "mlp", options.embed_dim, mlp_width(options), mlp_options(options)),
        drop_path2_(*this, "drop_path2", drop_path) {
    set_role(Role::block);
    if (options.init_values == 0) return;
    scale1_.emplace(*this, "ls1.gamma", Shape{options.embed_dim}, init::constant(options.init_values));
    scale2_.emplace(*this, "ls2.gamma", Shape{options.embed_dim}, init::constant(options.init_values));
  }

  /// x [B, L, embed_dim] to the first `tokens` of them, or to all (0).
  Variable forward(Variable x, std::int64_t tokens) const {
    return run_region(*this, std::move(x), [this, tokens](Variable in) { return transform(std::move(in), tokens); });
  }

 private:
  static Variable of(const std::optional<Parameter>& scale) { return scale ? scale->variable() : Variable(); }
  Variable transform(Variable x, std::int64_t tokens) const {
    const Scope scope(*this);
    Variable h = norm1_.forward(x);
    if (tokens != 0) x = first_tokens(std::move(x), tokens);
    x = add_branch(std::move(x), drop_path1_, [&](Variable to) {
      return attention_.forward(std::move(h), {.queries = tokens, .scale = of(scale1_), .residual = std::move(to)});
    });
    h = norm2_.forward(x);
    return add_branch(std::move(x), drop_path2_,
                      [&](Variable to) { return mlp_.forward(std::move(h), of(scale2_), std::move(to)); });
  }

  nn::LayerNorm norm1_;
  nn::Attention attention_;
  nn::DropPath drop_path1_;
  nn::LayerNorm norm2_;
  nn::Mlp mlp_;
  nn::DropPath drop_path2_;
  std::optional<Parameter> scale1_, scale2_;  // [embed_dim]
};

/// timm's AttentionPoolLatent: a learned query attends to all tokens, then an MLP.
class VisionTransformer::AttentionPool final : public Module {
 public:
  AttentionPool(Module& parent, std::string_view name, const VitOptions& options)
      : Module(parent, name),
        heads_(options.num_heads),
        latent_(*this, "latent", {1, 1, options.embed_dim},
                init::truncated_normal(1 / std::sqrt(static_cast<double>(options.embed_dim)))),
        q_(*this, "q", options.embed_dim, options.embed_dim, {.init = vit_linear()}),
        kv_(*this, "kv", options.embed_dim, 2 * options.embed_dim, {.init = vit_linear()}),
        projection_(*this, "proj", options.embed_dim, options.embed_dim, {.init = vit_linear()}),
        norm_(*this, "norm", options.embed_dim, options.norm_eps),
        mlp_(*this, "mlp", options.embed_dim, mlp_width(options),
             {.activation = options.activation, .init = vit_linear()}) {}

  /// x [B, L, embed_dim] to [B, embed_dim].
  Variable forward(Variable x) const {
    const Scope scope(*this);
    const std::int64_t batch = x.shape()[0], width = x.shape()[2];
    Variable latent = apply(Expand{.count = batch, .dtype = x.dtype()}, latent_.variable());  // [B, 1, embed_dim]
    Variable kv = kv_.forward(std::move(x));                                                  // [B, L, 2 · embed_dim]
    Variable k = slice(kv, 2, 0, width), v = slice(std::move(kv), 2, width, 2 * width);
    Variable pooled =
        projection_.forward(attention(q_.forward(std::move(latent)), std::move(k), std::move(v), {.heads = heads_}));
    Variable transformed = mlp_.forward(norm_.forward(pooled));
    return apply(Add{}, std::move(pooled), std::move(transformed)).reshape({batch, width});
  }

 private:
  std::int64_t heads_;
  Parameter latent_;
  nn::Linear q_, kv_, projection_;
  nn::LayerNorm norm_;
  nn::Mlp mlp_;
};

VisionTransformer::VisionTransformer(const ModelContext& context, const VitOptions& options)
    : ImageModel(context,
                 {options.image_size, options.in_channels, options.num_classes,
                  options.distilled ? std::vector<std::string>{"head", "head_dist"} : std::vector<std::string>{"head"},
                  "patch_embed.proj"}),
      options_(options),
      patches_(grid_of(options).height * grid_of(options).width),
      prefix_(prefix_of(options)),
      patch_embedding_(*this, "patch_embed.proj", options.in_channels, options.embed_dim,
                       {.kernel = options.patch_size, .stride = options.patch_size, .bias = !options.pre_norm}),
      positions_(*this, "pos_embed", {1, patches_ + (!options.no_embed_class ? prefix_ : 0), options.embed_dim},
                 init::truncated_normal(.02)),
      position_dropout_(*this, "pos_drop", options.pos_drop_rate),
      pre_norm_(options.pre_norm
                    ? std::make_unique<nn::LayerNorm>(*this, "norm_pre", options.embed_dim, options.norm_eps)
                    : nullptr),
      wanted_(wanted_maps(context, static_cast<std::size_t>(options.depth))),
      blocks_(make_blocks(options)) {
  const bool part = is_part(context);
  if (!part || context.part_of.map_norm)
    // As in timm, a norm behind the pooling has another name than one before it.
    norm_.emplace(*this, options.pool == VitOptions::Pool::mean && !part ? "fc_norm" : "norm", options.embed_dim,
                  options.norm_eps);
  if (norm_ && (part || options.pool != VitOptions::Pool::mean)) norm_->set_follows_block();
  if (!part) {
    head_dropout_.emplace(*this, "head_drop", options.drop_rate);
    distillation_dropout_.emplace(*this, "head_drop_dist", options.drop_rate);
    head_.emplace(*this, "head", head_width(options), options.num_classes, nn::LinearOptions{.init = vit_linear()});
  }
  positions_.exclude_from_decay();
  const auto add_tokens = [&](std::string_view name, std::int64_t count, const Init& init) {
    prefix_tokens_.push_back(std::make_unique<Parameter>(*this, name, Shape{1, count, options.embed_dim}, init));
    prefix_tokens_.back()->exclude_from_decay();
  };
  if (options.class_token) add_tokens("cls_token", 1, init::normal(1e-6));
  if (options.distilled) add_tokens("dist_token", 1, init::truncated_normal(.02));
  if (options.reg_tokens > 0) add_tokens("reg_token", options.reg_tokens, init::normal(1e-6));
  if (options.pool == VitOptions::Pool::map && !part)
    attention_pool_ = std::make_unique<AttentionPool>(*this, "attn_pool", options);
  if (options.distilled && !part)
    distillation_head_.emplace(*this, "head_dist", options.embed_dim, options.num_classes,
                               nn::LinearOptions{.init = vit_linear()});
}

std::vector<std::unique_ptr<VisionTransformer::Block>> VisionTransformer::make_blocks(const VitOptions& options) {
  std::vector<std::unique_ptr<Block>> blocks;
  const std::int64_t count = wanted_.empty() ? options.depth : static_cast<std::int64_t>(wanted_.back()) + 1;
  for (std::int64_t i = 0; i < count; ++i)
    blocks.push_back(std::make_unique<Block>(*this, "blocks." + std::to_string(i), options,
                                             nn::drop_path_rate(options.drop_path_rate, i, options.depth)));
  return blocks;
}

Tensor VisionTransformer::adapt(const Parameter& parameter, const Tensor& stored, Library library) const {
  if (&parameter != &positions_) return ImageModel::adapt(parameter, stored, library);
  const Shape &from = stored.shape(), &to = positions_.shape();
  if (from.rank() != 3 || from[0] != 1 || from[2] != to[2]) return {};
  const std::int64_t leading = to[1] - patches_;
  if (square_side(from[1] - leading) == 0) return {};
  if (stored.device() == Device::meta) return Tensor::empty(to, DType::f32, Device::meta);
  return resample_positions(stored, grid_of(options_), leading,
                            library == Library::timm ? Cubic::antialiased : Cubic::plain);
}

Variable VisionTransformer::embed(Variable images) const {
  const std::int64_t batch = images.shape()[0];
  Variable x = patch_embedding_.forward(std::move(images)).reshape({batch, patches_, options_.embed_dim});
  const auto add_positions = [&] {
    x = apply(AddBroadcast{.shape = positions_.shape()}, std::move(x), positions_.variable());
  };
  if (options_.no_embed_class) add_positions();
  if (prefix_ > 0) {
    std::vector<Variable> all;
    for (const std::unique_ptr<Parameter>& tokens : prefix_tokens_)
      all.push_back(apply(Expand{.count = batch, .dtype = x.dtype()}, tokens->variable()));  // [B, n, embed_dim]
    all.push_back(std::move(x));
    x = concat(std::move(all), 1);
  }
  if (!options_.no_embed_class) add_positions();
  x = position_dropout_.forward(std::move(x));
  return pre_norm_ ? pre_norm_->forward(std::move(x)) : x;
}

std::vector<MapShape> VisionTransformer::map_shapes() const {
  return {wanted_.size(), MapShape{options_.embed_dim, options_.patch_size}};
}

std::vector<Variable> VisionTransformer::maps(Variable images) {
  const Scope scope(*this);
  const ImageSize grid = grid_of(options_);
  Variable x = embed(std::move(images));  // [B, L, embed_dim]
  const std::int64_t batch = x.shape()[0];
  std::vector<Variable> found;
  for (std::size_t first = 0; const std::size_t number : wanted_) {
    x = run_sequence(blocks_, first, number + 1, std::move(x),
                     [](const Block& block, Variable in) { return block.forward(std::move(in), 0); });
    first = number + 1;
    Variable map = prefix_ > 0 ? slice(x, 1, prefix_, prefix_ + patches_) : x;
    if (norm_) map = norm_->forward(std::move(map));
    found.push_back(map.reshape({batch, grid.height, grid.width, options_.embed_dim}));
  }
  return found;
}

Variable VisionTransformer::features(Variable images) const {
  Variable x = embed(std::move(images));  // [B, L, embed_dim]
  const Block* const last = blocks_.empty() ? nullptr : blocks_.back().get();
  const std::int64_t read = tokens_read(options_);
  x = run_sequence(blocks_, std::move(x), [last, read](const Block& block, Variable in) {
    return block.forward(std::move(in), &block == last ? read : 0);
  });
  switch (options_.pool) {
    case VitOptions::Pool::token:
      return norm_->forward(first_tokens(std::move(x), read));
    case VitOptions::Pool::token_mean: {
      x = norm_->forward(std::move(x));
      Variable token = slice(x, 1, 0, 1).reshape({x.shape()[0], options_.embed_dim});
      return concat({std::move(token), global_avg_pool(slice(std::move(x), 1, prefix_, prefix_ + patches_))}, 1);
    }
    case VitOptions::Pool::map:
      return attention_pool_->forward(norm_->forward(std::move(x)));
    case VitOptions::Pool::mean:
      if (prefix_ > 0) x = slice(std::move(x), 1, prefix_, prefix_ + patches_);
      return norm_->forward(global_avg_pool(std::move(x)));
  }
  fail("no such pool");
}

Variable VisionTransformer::classify(Variable images) {
  const Scope scope(*this);
  Variable x = features(std::move(images));
  return head_->forward(head_dropout_->forward(x.reshape({x.shape()[0], head_->in()})));
}

Outputs VisionTransformer::run(Variable images) {
  if (!options_.distilled) return ImageModel::run(std::move(images));
  const Scope scope(*this);
  Variable x = features(std::move(images));  // [B, 2, embed_dim]
  const auto read = [&](std::int64_t token, const nn::Linear& head, const nn::Dropout& dropout) {
    return head.forward(dropout.forward(slice(x, 1, token, token + 1).reshape({x.shape()[0], x.shape()[2]})));
  };
  Variable class_logits = read(0, *head_, *head_dropout_),
           distilled_logits = read(1, *distillation_head_, *distillation_dropout_);
  Outputs outputs;
  outputs.set("logits", (class_logits + distilled_logits) / 2);
  outputs.set("logits_class", std::move(class_logits));
  outputs.set("logits_distilled", std::move(distilled_logits));
  return outputs;
}

std::array<std::pair<std::string_view, VitOptions::Pool>, 4> names_of(VitOptions::Pool) {
  using Pool = VitOptions::Pool;
  return {{{"token", Pool::token}, {"avg", Pool::mean}, {"token_avg", Pool::token_mean}, {"map", Pool::map}}};
}
std::array<std::pair<std::string_view, VitOptions::Mlp>, 2> names_of(VitOptions::Mlp) {
  return {{{"mlp", VitOptions::Mlp::plain}, {"swiglu", VitOptions::Mlp::swiglu}}};
}

namespace {

/// The rows of all models, as rows of V.
template <class V>
Fields vit_rows() {
  return rows_of_base<V, ImageOptions>() +
         Fields{field<V>("patch_size", &V::patch_size, extent_range, "patch side in pixels"),
                field<V>("embed_dim", &V::embed_dim, extent_range, "width of the tokens"),
                field<V>("depth", &V::depth, between(1, 4096), "number of blocks"),
                field<V>("num_heads", &V::num_heads, extent_range, "attention heads"),
                field<V>("mlp_ratio", &V::mlp_ratio, below(1024), "hidden width of the MLP / embed_dim"),
                field<V>("qkv_bias", &V::qkv_bias, "bias of queries, keys and values"),
                field<V>("no_embed_class", &V::no_embed_class, "position embeddings for the patch tokens only"),
                field<V>("init_values", &V::init_values, "initial layer scale; 0: no layer scale"),
                field<V>("pre_norm", &V::pre_norm, "norm before the first block"),
                field<V>("mlp_layer", &V::mlp, "MLP, or SwiGLU"),
                field<V>("norm_eps", &V::norm_eps, epsilon_range, "epsilon of the norms"),
                field<V>("drop_rate", &V::drop_rate, rate_range, fits_weights, "dropout before the head"),
                field<V>("pos_drop_rate", &V::pos_drop_rate, rate_range, fits_weights,
                         "dropout after the position embedding"),
                field<V>("proj_drop_rate", &V::proj_drop_rate, rate_range, fits_weights,
                         "dropout after projections and in the MLP"),
                field<V>("attn_drop_rate", &V::attn_drop_rate, rate_range, fits_weights,
                         "dropout of attention probabilities"),
                field<V>("drop_path_rate", &V::drop_path_rate, rate_range, fits_weights,
                         "stochastic depth of the last block; it grows linearly over the blocks"),
                field<V>("activation", &V::activation, one_of({"gelu", "gelu_tanh", "quick_gelu"}),
                         "activation function of the MLP"),
                field<V>("attention", &V::attention, fits_weights,
                         "fused attention, or a chain of ops that keeps the scores")};
}

}  // namespace

Fields DistilledVitOptions::fields() { return vit_rows<DistilledVitOptions>(); }

Fields VitOptions::fields() {
  Fields rows = vit_rows<VitOptions>();
  const auto behind = std::ranges::find(rows, "qkv_bias", &Field::name) + 1;
  const Fields own{
      field("class_token", &VitOptions::class_token, "a class token"),
      field("global_pool", &VitOptions::pool,
            "input of the head: the class token, the mean of the patch tokens, both, or attention pooling"),
      field("reg_tokens", &VitOptions::reg_tokens, up_to(1 << 16), "register tokens (Darcet et al. 2024)")};
  rows.insert(behind, own.begin(), own.end());
  return rows;
}

void VitOptions::check(HyperProblems& problems) const {
  if (const std::int64_t side = image_size.height % patch_size != 0 ? image_size.height : image_size.width;
      side % patch_size != 0)
    problems.add("patch_size",
                 fmt::format("`patch_size` {} does not divide `image_size` {}: the nearest sizes are {}{}", patch_size,
                             side, side < patch_size ? "" : fmt::format("{} and ", side / patch_size * patch_size),
                             (side / patch_size + 1) * patch_size));
  if (embed_dim % num_heads != 0)
    problems.add("num_heads", fmt::format("`num_heads` {} does not divide `embed_dim` {}", num_heads, embed_dim));
  if (static_cast<double>(embed_dim) * mlp_ratio < 1)
    problems.add("mlp_ratio",
                 fmt::format("`mlp_ratio` {} of `embed_dim` {} leaves no hidden unit", mlp_ratio, embed_dim));
  if (mlp == Mlp::swiglu && mlp_width(*this) % 2 != 0)
    problems.add("mlp_ratio", fmt::format("`mlp_layer: swiglu` halves the {} hidden units of `mlp_ratio` {}",
                                          mlp_width(*this), mlp_ratio));
  if (!class_token && (pool == Pool::token || pool == Pool::token_mean))
    problems.add("global_pool", "`global_pool` reads the class token, but `class_token` is false");
}

namespace {

const RegisterFamily<VisionTransformer, VitOptions> vit("vit");
const RegisterFamily<VisionTransformer, DistilledVitOptions> deit_distilled("deit_distilled");

using Values = std::vector<HyperParameter>;

Values shape(std::int64_t patch_size, std::int64_t embed_dim, std::int64_t depth, std::int64_t num_heads,
             std::int64_t image_size = 224, const Values& more = {}) {
  Values values{{"image_size", image_size},
                {"patch_size", patch_size},
                {"embed_dim", embed_dim},
                {"depth", depth},
                {"num_heads", num_heads}};
  values.insert(values.end(), more.begin(), more.end());
  return values;
}

const Values deit3{{"no_embed_class", true}, {"init_values", 1e-6}};
const Values dinov2{{"init_values", 1e-5}};
const Values dinov2_registers{{"init_values", 1e-5}, {"reg_tokens", std::int64_t{4}}, {"no_embed_class", true}};
const Values dinov2_giant{{"init_values", 1e-5}, {"mlp_ratio", 2.66667 * 2}, {"mlp_layer", "swiglu"}};
const Values dinov2_giant_registers{{"init_values", 1e-5},
                                    {"mlp_ratio", 2.66667 * 2},
                                    {"mlp_layer", "swiglu"},
                                    {"reg_tokens", std::int64_t{4}},
                                    {"no_embed_class", true}};
const Values clip{{"pre_norm", true}, {"norm_eps", 1e-5}};
const Values clip_openai{{"pre_norm", true}, {"norm_eps", 1e-5}, {"activation", "quick_gelu"}};
const Values siglip{{"class_token", false}, {"global_pool", "map"}};
const Values siglip_so400m{{"class_token", false}, {"global_pool", "map"}, {"mlp_ratio", 3.7362}};

const RegisterPreset vit_presets[] = {
    {"vit_tiny_patch16_224", "vit", shape(16, 192, 12, 3), inception_images(0.9)},
    {"vit_small_patch16_224", "vit", shape(16, 384, 12, 6), inception_images(0.9)},
    {"vit_base_patch16_224", "vit", shape(16, 768, 12, 12), inception_images(0.9)},
    {"vit_base_patch16_384", "vit", shape(16, 768, 12, 12, 384), inception_images(1)},
    {"vit_large_patch16_224", "vit", shape(16, 1024, 24, 16), inception_images(0.9)},
    {"deit_tiny_patch16_224", "vit", shape(16, 192, 12, 3), imagenet_images(0.9)},
    {"deit_small_patch16_224", "vit", shape(16, 384, 12, 6), imagenet_images(0.9)},
    {"deit_base_patch16_224", "vit", shape(16, 768, 12, 12), imagenet_images(0.9)},
    {"deit_base_patch16_384", "vit", shape(16, 768, 12, 12, 384), imagenet_images(1)},
    {"deit_tiny_distilled_patch16_224", "deit_distilled", shape(16, 192, 12, 3), imagenet_images(0.9)},
    {"deit_small_distilled_patch16_224", "deit_distilled", shape(16, 384, 12, 6), imagenet_images(0.9)},
    {"deit_base_distilled_patch16_224", "deit_distilled", shape(16, 768, 12, 12), imagenet_images(0.9)},
    {"deit_base_distilled_patch16_384", "deit_distilled", shape(16, 768, 12, 12, 384), imagenet_images(1)},
    {"deit3_small_patch16_224", "vit", shape(16, 384, 12, 6, 224, deit3), imagenet_images(0.9)},
    {"deit3_small_patch16_384", "vit", shape(16, 384, 12, 6, 384, deit3), imagenet_images(1)},
    {"deit3_medium_patch16_224", "vit", shape(16, 512, 12, 8, 224, deit3), imagenet_images(0.9)},
    {"deit3_base_patch16_224", "vit", shape(16, 768, 12, 12, 224, deit3), imagenet_images(0.9)},
    {"deit3_base_patch16_384", "vit", shape(16, 768, 12, 12, 384, deit3), imagenet_images(1)},
    {"deit3_large_patch16_224", "vit", shape(16, 1024, 24, 16, 224, deit3), imagenet_images(0.9)},
    {"deit3_large_patch16_384", "vit", shape(16, 1024, 24, 16, 384, deit3), imagenet_images(1)},
    {"deit3_huge_patch14_224", "vit", shape(14, 1280, 32, 16, 224, deit3), imagenet_images(0.9)},
    {"vit_small_patch14_dinov2", "vit", shape(14, 384, 12, 6, 518, dinov2), imagenet_images(1)},
    {"vit_base_patch14_dinov2", "vit", shape(14, 768, 12, 12, 518, dinov2), imagenet_images(1)},
    {"vit_large_patch14_dinov2", "vit", shape(14, 1024, 24, 16, 518, dinov2), imagenet_images(1)},
    {"vit_giant_patch14_dinov2", "vit", shape(14, 1536, 40, 24, 518, dinov2_giant), imagenet_images(1)},
    {"vit_small_patch14_reg4_dinov2", "vit", shape(14, 384, 12, 6, 518, dinov2_registers), imagenet_images(1)},
    {"vit_base_patch14_reg4_dinov2", "vit", shape(14, 768, 12, 12, 518, dinov2_registers), imagenet_images(1)},
    {"vit_large_patch14_reg4_dinov2", "vit", shape(14, 1024, 24, 16, 518, dinov2_registers), imagenet_images(1)},
    {"vit_giant_patch14_reg4_dinov2", "vit", shape(14, 1536, 40, 24, 518, dinov2_giant_registers), imagenet_images(1)},
    {"vit_base_patch32_clip_224", "vit", shape(32, 768, 12, 12, 224, clip), clip_images(0.9)},
    {"vit_base_patch16_clip_224", "vit", shape(16, 768, 12, 12, 224, clip), clip_images(0.95)},
    {"vit_large_patch14_clip_224", "vit", shape(14, 1024, 24, 16, 224, clip), inception_images(1)},
    {"vit_base_patch16_clip_quickgelu_224", "vit", shape(16, 768, 12, 12, 224, clip_openai), clip_images(1)},
    {"vit_large_patch14_clip_quickgelu_224", "vit", shape(14, 1024, 24, 16, 224, clip_openai), clip_images(1)},
    {"vit_base_patch16_siglip_224", "vit", shape(16, 768, 12, 12, 224, siglip), inception_images(0.9)},
    {"vit_large_patch16_siglip_256", "vit", shape(16, 1024, 24, 16, 256, siglip), inception_images(0.9)},
    {"vit_so400m_patch14_siglip_224", "vit", shape(14, 1152, 27, 16, 224, siglip_so400m), inception_images(0.9)},
    {"vit_cifar", "vit", shape(4, 192, 9, 3, 32, {{"num_classes", std::int64_t{10}}})},
};

}  // namespace
}  // namespace lacuna
