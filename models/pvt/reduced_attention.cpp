#include "models/pvt/reduced_attention.h"

#include "nn/functional.h"
#include "nn/init.h"
#include "nn/region.h"
#include "ops/pooling/pool.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lacuna {
namespace {

constexpr double reduced_eps = 1e-5;  // of the norm of keys and values, whatever the others have
constexpr std::int64_t pooled_side = 7;

nn::WeightInit normal_linear() { return {init::truncated_normal(.02), init::constant(0)}; }
nn::WeightInit convolution_init(std::int64_t fan_out) {
  return {init::normal(std::sqrt(2.0 / static_cast<double>(fan_out))), init::constant(0)};
}

std::int64_t hidden(const PvtOptions& options, std::size_t stage) {
  return static_cast<std::int64_t>(static_cast<double>(options.embed_dims[stage]) * options.mlp_ratios[stage]);
}

double drop_path(const PvtOptions& options, const PvtBlockPlace& place) {
  const auto first = options.depths.begin();
  const std::int64_t before = std::accumulate(first, first + static_cast<std::ptrdiff_t>(place.stage), std::int64_t{0}),
                     all = std::accumulate(first, options.depths.end(), std::int64_t{0});
  return nn::drop_path_rate(options.drop_path_rate, before + place.number, all);
}

}  // namespace

Fields PvtOptions::fields() {
  using P = PvtOptions;
  constexpr ItemCount four{4, 4};
  return rows_of_base<P, ImageOptions>() +
         Fields{field("embed_dims", &P::embed_dims, extent_range, four, "channels per stage"),
                field("depths", &P::depths, between(1, 4096), four, "blocks per stage"),
                field("num_heads", &P::num_heads, extent_range, four, "attention heads per stage"),
                field("sr_ratios", &P::sr_ratios, between(1, 64), four,
                      "per stage, the factor by which the map of keys and values is smaller along each axis"),
                field("mlp_ratios", &P::mlp_ratios, below(1024), four, "per stage, hidden width of the MLP / channels"),
                field("qkv_bias", &P::qkv_bias, "bias of queries, keys and values"),
                field("norm_eps", &P::norm_eps, epsilon_range, "epsilon of the blocks' norms"),
                field("drop_rate", &P::drop_rate, rate_range, fits_weights, "dropout before the head"),
                field("proj_drop_rate", &P::proj_drop_rate, rate_range, fits_weights,
                      "dropout after projections and in the MLP"),
                field("attn_drop_rate", &P::attn_drop_rate, rate_range, fits_weights,
                      "dropout of attention probabilities"),
                field("drop_path_rate", &P::drop_path_rate, rate_range, fits_weights,
                      "stochastic depth of the last block; it grows linearly over the blocks")};
}

void PvtOptions::check(HyperProblems& problems, bool pools) const {
  for (std::size_t i = 0; i < sr_ratios.size() && !pools; ++i) {
    const std::int64_t stride = std::int64_t{4} << i, shorter = std::min(image_size.height, image_size.width),
                       side = (shorter + stride - 1) / stride;
    if (side < sr_ratios[i])
      problems.add("sr_ratios",
                   fmt::format("`sr_ratios`: {} is more than the {} rows or columns of stage {} of images of {}x{}",
                               sr_ratios[i], side, i, image_size.height, image_size.width));
  }
  for (std::size_t i = 0; i < std::min(embed_dims.size(), mlp_ratios.size()); ++i)
    if (static_cast<double>(embed_dims[i]) * mlp_ratios[i] < 1)
      problems.add("mlp_ratios", fmt::format("`mlp_ratios`: {} of the {} channels of stage {} leave no hidden one",
                                             mlp_ratios[i], embed_dims[i], i));
  for (std::size_t i = 0; i < std::min(embed_dims.size(), num_heads.size()); ++i)
    if (embed_dims[i] % num_heads[i] != 0)
      problems.add("num_heads", fmt::format("`num_heads` {} does not divide the {} channels of stage {}", num_heads[i],
                                            embed_dims[i], i));
}

PvtBlock::PvtBlock(Module& parent, std::string_view name, const PvtOptions& options, const PvtBlockPlace& place)
    : Module(parent, name),
      heads_(options.num_heads[place.stage]),
      pools_(place.pools),
      norm1_(*this, "norm1", options.embed_dims[place.stage], options.norm_eps),
      q_(*this, "attn.q", options.embed_dims[place.stage], options.embed_dims[place.stage],
         {.bias = options.qkv_bias, .init = normal_linear()}),
      kv_(*this, "attn.kv", options.embed_dims[place.stage], 2 * options.embed_dims[place.stage],
          {.bias = options.qkv_bias, .init = normal_linear(), .parts = {"k", "v"}}),
      attention_dropout_(options.attn_drop_rate),
      projection_(*this, "attn.proj", options.embed_dims[place.stage], options.embed_dims[place.stage],
                  {.init = normal_linear()}),
      projection_dropout_(*this, "attn.proj_drop", options.proj_drop_rate),
      drop_path1_(*this, "drop_path1", drop_path(options, place)),
      norm2_(*this, "norm2", options.embed_dims[place.stage], options.norm_eps),
      mlp_dropout1_(*this, "mlp.drop1", options.proj_drop_rate),
      mlp_dropout2_(*this, "mlp.drop2", options.proj_drop_rate),
      drop_path2_(*this, "drop_path2", drop_path(options, place)) {
  set_role(Role::block);
  const std::int64_t channels = options.embed_dims[place.stage], ratio = options.sr_ratios[place.stage],
                     width = hidden(options, place.stage);
  if (pools_ || ratio > 1) {
    const std::int64_t kernel = pools_ ? 1 : ratio;
    reduction_.emplace(
        *this, "attn.sr", channels, channels,
        nn::Conv2dOptions{.kernel = kernel, .stride = kernel, .init = convolution_init(channels * kernel * kernel)});
    reduced_norm_.emplace(*this, "attn.norm", channels, reduced_eps);
  }
  if (!place.mixes) {
    mlp_ = std::make_unique<nn::Mlp>(*this, "mlp", channels, width,
                                     nn::MlpOptions{.dropout = options.proj_drop_rate, .init = normal_linear()});
    return;
  }
  fc1_ = std::make_unique<nn::Linear>(*this, "mlp.fc1", channels, width, nn::LinearOptions{.init = normal_linear()});
  mixing_ = std::make_unique<nn::Conv2d>(
      *this, "mlp.dwconv", width, width,
      nn::Conv2dOptions{.kernel = 3, .padding = 1, .groups = width, .init = convolution_init(9)});
  fc2_ = std::make_unique<nn::Linear>(*this, "mlp.fc2", width, channels, nn::LinearOptions{.init = normal_linear()});
}

Variable PvtBlock::forward(Variable x, std::int64_t height, std::int64_t width) const {
  return run_region(*this, std::move(x),
                    [this, height, width](Variable in) { return transform(std::move(in), height, width); });
}

Variable PvtBlock::attend(Variable x, std::int64_t height, std::int64_t width, Variable residual) const {
  const std::int64_t batch = x.shape()[0], channels = x.shape()[2];
  Variable q = q_.forward(x);
  if (reduction_) {
    x = x.reshape({batch, height, width, channels});
    if (pools_)
      x = apply(
          AdaptiveAvgPool2d{.out_height = pooled_side, .out_width = pooled_side, .height = height, .width = width},
          std::move(x));
    x = reduction_->forward(std::move(x));
    const std::int64_t tokens = x.shape()[1] * x.shape()[2];
    x = reduced_norm_->forward(x.reshape({batch, tokens, channels}));
    if (pools_) x = gelu(std::move(x));
  }
  Variable kv = kv_.forward(std::move(x));  // [B, tokens, 2 · channels]
  Variable k = slice(kv, 2, 0, channels), v = slice(std::move(kv), 2, channels, 2 * channels);
  Variable mixed = attention(
      std::move(q), std::move(k), std::move(v),
      {.heads = heads_, .dropout = training() ? attention_dropout_ : 0, .stream = stream("attention_dropout")});
  return add_branch(std::move(residual), projection_dropout_,
                    [&](Variable to) { return projection_.forward(std::move(mixed), {}, {}, std::move(to)); });
}

Variable PvtBlock::transform(Variable x, std::int64_t height, std::int64_t width) const {
  const Scope scope(*this);
  Variable h = norm1_.forward(x);
  x = add_branch(std::move(x), drop_path1_,
                 [&](Variable to) { return attend(std::move(h), height, width, std::move(to)); });
  h = norm2_.forward(x);
  return add_branch(std::move(x), drop_path2_, [&](Variable to) {
    if (mlp_) return mlp_->forward(std::move(h), {}, std::move(to));
    h = fc1_->forward(std::move(h));
    const Shape shape = h.shape();  // [B, height · width, hidden]
    if (pools_) h = relu(std::move(h));
    h = mixing_->forward(h.reshape({shape[0], height, width, shape[2]})).reshape(shape);
    h = mlp_dropout1_.forward(gelu(std::move(h)));
    return add_branch(std::move(to), mlp_dropout2_,
                      [&](Variable onto) { return fc2_->forward(std::move(h), {}, {}, std::move(onto)); });
  });
}

}  // namespace lacuna
