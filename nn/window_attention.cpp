#include "nn/window_attention.h"

#include "nn/functional.h"
#include "nn/init.h"
#include "ops/products/linear.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lacuna::nn {
namespace {

std::int64_t table_rows(const WindowAttentionOptions& options) {
  return (2 * options.window_height - 1) * (2 * options.window_width - 1);
}

/// Log-spaced coordinates of Swin V2, [(2·wh − 1)(2·ww − 1), 2]: sign(x)·log2(|x| + 1) / 3 of the distances, which
/// are scaled so that the largest in the window is 8.
Tensor log_coordinates(const WindowAttentionOptions& options, DType dtype, Device device) {
  const std::int64_t columns = 2 * options.window_width - 1;
  const auto place = [&](std::int64_t distance, std::int64_t window) {
    const std::int64_t greatest = (options.pretrained_window > 0 ? options.pretrained_window : window) - 1;
    const double x = 8 * static_cast<double>(distance) / static_cast<double>(std::max<std::int64_t>(greatest, 1));
    return static_cast<float>(std::copysign(std::log2(std::abs(x) + 1) / 3, x));
  };
  std::vector<float> coordinates;
  for (std::int64_t row = 0; row < table_rows(options); ++row) {
    coordinates.push_back(place(row / columns - options.window_height + 1, options.window_height));
    coordinates.push_back(place(row % columns - options.window_width + 1, options.window_width));
  }
  return Tensor::from(std::span<const float>(coordinates), {table_rows(options), 2}, dtype, device);
}

}  // namespace

Variable WindowAttention::forward(Variable x, Variable residual) const {
  const Scope scope(*this);
  return mix(std::move(x), std::move(residual));
}

Variable WindowAttention::attend(Variable qkv, Variable table, Variable pad, Variable logit_scale) const {
  const bool pads = options_.height % options_.window_height != 0 || options_.width % options_.window_width != 0;
  const lacuna::WindowAttention op{.heads = options_.heads,
                                   .height = options_.height,
                                   .width = options_.width,
                                   .window_height = options_.window_height,
                                   .window_width = options_.window_width,
                                   .shift_down = options_.shift_down,
                                   .shift_right = options_.shift_right,
                                   .pads_first = options_.pads_first};
  return apply(op, std::move(qkv), std::move(table), pads ? std::move(pad) : Variable(), std::move(logit_scale));
}

TableWindowAttention::TableWindowAttention(Module& parent, std::string_view name, std::int64_t channels,
                                           const WindowAttentionOptions& options)
    : WindowAttention(parent, name, options),
      table_(*this, "relative_position_bias_table", {table_rows(options), options.heads}, init::truncated_normal(.02)),
      qkv_(*this, "qkv", channels, 3 * channels,
           {.bias = options.qkv_bias, .init = options.init, .parts = {"query", "key", "value"}}),
      projection_(*this, "proj", channels, channels, {.init = options.init}),
      projection_dropout_(*this, "proj_drop", options.projection_dropout) {
  table_.exclude_from_decay();
}

Variable TableWindowAttention::mix(Variable x, Variable residual) const {
  Variable mixed = attend(qkv_.forward(std::move(x)), table_.variable(), qkv_.bias());
  return add_branch(std::move(residual), projection_dropout_,
                    [&](Variable to) { return projection_.forward(std::move(mixed), {}, {}, std::move(to)); });
}

CosineWindowAttention::CosineWindowAttention(Module& parent, std::string_view name, std::int64_t channels,
                                             const WindowAttentionOptions& options)
    : WindowAttention(parent, name, options),
      logit_scale_(*this, "logit_scale", {options.heads, 1, 1}, init::constant(std::log(10.0))),
      hidden_(*this, "cpb_mlp.0", 2, 512, {.init = options.init}),
      biases_(*this, "cpb_mlp.2", 512, options.heads, {.bias = false, .init = options.init}),
      qkv_(*this, "qkv.weight", {3 * channels, channels},
           options.init.weight ? options.init.weight : init::torch_default(channels)),
      projection_(*this, "proj", channels, channels, {.init = options.init}),
      projection_dropout_(*this, "proj_drop", options.projection_dropout) {
  logit_scale_.exclude_from_decay();
  for (const Linear* const layer : {&hidden_, &biases_})
    for (Parameter* const parameter : layer->parameters()) parameter->exclude_from_decay();
  if (!options.qkv_bias) return;
  q_bias_ = std::make_unique<Parameter>(*this, "q_bias", Shape{channels}, init::constant(0));
  v_bias_ = std::make_unique<Parameter>(*this, "v_bias", Shape{channels}, init::constant(0));
}

Variable CosineWindowAttention::table() const {
  Variable coordinates(log_coordinates(options(), logit_scale_.tensor().dtype(), context().device));
  return 16 * sigmoid(biases_.forward(relu(hidden_.forward(std::move(coordinates)))));
}

Variable CosineWindowAttention::mix(Variable x, Variable residual) const {
  Variable bias;  // biases of q | k | v; k has none
  if (q_bias_) {
    const Tensor zeros = Tensor::zeros(q_bias_->shape(), q_bias_->tensor().dtype(), context().device);
    bias = concat({q_bias_->variable(), Variable(zeros), v_bias_->variable()}, 0);
  }
  Variable qkv = apply(lacuna::Linear{}, std::move(x), qkv_.variable(), bias);
  Variable scale = logit_scale_.variable().reshape({options().heads});
  Variable mixed = attend(std::move(qkv), table(), std::move(bias), std::move(scale));
  return add_branch(std::move(residual), projection_dropout_,
                    [&](Variable to) { return projection_.forward(std::move(mixed), {}, {}, std::move(to)); });
}

}  // namespace lacuna::nn
