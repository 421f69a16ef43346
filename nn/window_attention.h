// Self-attention within windows of a map, with its projections: Swin's (Liu et al. 2021) and Swin V2's (2022).
#pragma once

#include "nn/dropout.h"
#include "nn/linear.h"
#include "ops/attention/window_attention.h"

#include <memory>

namespace lacuna::nn {

struct WindowAttentionOptions {
  std::int64_t heads = 1;
  std::int64_t height = 0, width = 0;                // of the map
  std::int64_t window_height = 7, window_width = 7;  // of a window
  std::int64_t shift_down = 0, shift_right = 0;
  bool qkv_bias = true;
  double projection_dropout = 0;
  WeightInit init = {};                // of all linear layers
  std::int64_t pretrained_window = 0;  // V2: extent of the windows that the coordinates refer to; 0: these
};

class WindowAttention : public Module {
 public:
  /// x [B, height · width, channels], and so the result.
  Variable forward(Variable x) const;

 protected:
  WindowAttention(Module& parent, std::string_view name, const WindowAttentionOptions& options)
      : Module(parent, name), options_(options) {}
  /// Attends within windows of the map. Inputs: qkv [B, L, 3 · channels], the table, pads if the map has any, and what
  /// else V2 has.
  Variable attend(Variable qkv, Variable table, Variable pad, Variable logit_scale = {}) const;
  const WindowAttentionOptions& options() const { return options_; }

 private:
  virtual Variable mix(Variable x) const = 0;
  WindowAttentionOptions options_;
};

/// timm's layer of Swin: `relative_position_bias_table` [(2·wh − 1)(2·ww − 1), heads], `qkv`, `proj`.
class TableWindowAttention final : public WindowAttention {
 public:
  TableWindowAttention(Module& parent, std::string_view name, std::int64_t channels,
                       const WindowAttentionOptions& options);

 private:
  Variable mix(Variable x) const override;

  Parameter table_;
  Linear qkv_, projection_;
  Dropout projection_dropout_;
};

/// timm's layer of Swin V2: cosine attention with `logit_scale` [heads, 1, 1], whose biases a perceptron `cpb_mlp`
/// computes from the logarithms of relative coordinates; `qkv.weight`, `q_bias`, `v_bias`, `proj`.
class CosineWindowAttention final : public WindowAttention {
 public:
  CosineWindowAttention(Module& parent, std::string_view name, std::int64_t channels,
                        const WindowAttentionOptions& options);

 private:
  Variable mix(Variable x) const override;
  /// 16 · σ(cpb_mlp(coordinates)), [(2·wh − 1)(2·ww − 1), heads].
  Variable table() const;

  Parameter logit_scale_;
  Linear hidden_, biases_;                      // cpb_mlp.0 and cpb_mlp.2
  Parameter qkv_;                               // [3 · channels, channels]
  std::unique_ptr<Parameter> q_bias_, v_bias_;  // [channels]
  Linear projection_;
  Dropout projection_dropout_;
};

}  // namespace lacuna::nn
