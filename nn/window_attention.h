// Self-attention within windows of a feature map, with its projections: Swin (Liu et al. 2021) and Swin V2 (2022).
#pragma once

#include "nn/dropout.h"
#include "nn/linear.h"
#include "ops/attention/window_attention.h"

#include <memory>

namespace lacuna::nn {

struct WindowAttentionOptions {
  std::int64_t heads = 1;
  std::int64_t height = 0, width = 0;                // size of the map
  std::int64_t window_height = 7, window_width = 7;  // size of a window
  std::int64_t shift_down = 0, shift_right = 0;
  bool pads_first = false;  // the map is padded before it is rolled
  bool qkv_bias = true;
  double projection_dropout = 0;
  WeightInit init = {};                // for all linear layers
  std::int64_t pretrained_window = 0;  // V2: window extent in pretraining, to scale coordinates; 0: the window's own
};

class WindowAttention : public Module {
 public:
  /// Maps x [B, height · width, channels] to the same shape. `residual`, if given, is added.
  Variable forward(Variable x, Variable residual = {}) const;

 protected:
  WindowAttention(Module& parent, std::string_view name, const WindowAttentionOptions& options)
      : Module(parent, name), options_(options) {}
  /// Attention within windows of the map. Inputs: qkv [B, L, 3 · channels], the bias table, `pad` if the map is padded,
  /// and V2's logit scale.
  Variable attend(Variable qkv, Variable table, Variable pad, Variable logit_scale = {}) const;
  const WindowAttentionOptions& options() const { return options_; }

 private:
  virtual Variable mix(Variable x, Variable residual) const = 0;
  WindowAttentionOptions options_;
};

/// timm's layer for Swin, with `relative_position_bias_table` [(2·wh − 1)(2·ww − 1), heads], `qkv` and `proj`.
class TableWindowAttention final : public WindowAttention {
 public:
  TableWindowAttention(Module& parent, std::string_view name, std::int64_t channels,
                       const WindowAttentionOptions& options);

 private:
  Variable mix(Variable x, Variable residual) const override;

  Parameter table_;
  Linear qkv_, projection_;
  Dropout projection_dropout_;
};

/// timm's layer for Swin V2: cosine attention with `logit_scale` [heads, 1, 1]. A perceptron `cpb_mlp` computes the
/// position biases from log-spaced relative coordinates. Other parameters: `qkv.weight`, `q_bias`, `v_bias`, `proj`.
class CosineWindowAttention final : public WindowAttention {
 public:
  CosineWindowAttention(Module& parent, std::string_view name, std::int64_t channels,
                        const WindowAttentionOptions& options);

 private:
  Variable mix(Variable x, Variable residual) const override;
  /// The bias table 16 · σ(cpb_mlp(coordinates)), [(2·wh − 1)(2·ww − 1), heads].
  Variable table() const;

  Parameter logit_scale_;
  Linear hidden_, biases_;                      // cpb_mlp.0 and cpb_mlp.2
  Parameter qkv_;                               // [3 · channels, channels]
  std::unique_ptr<Parameter> q_bias_, v_bias_;  // [channels]
  Linear projection_;
  Dropout projection_dropout_;
};

}  // namespace lacuna::nn
