// The options of decoder language models: one implementation, of which transformers' families are settings.
#pragma once

#include "models/hyper_parameters.h"
#include "nn/mlp.h"
#include "ops/attention/rotary_table.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna {

struct DecoderOptions {
  enum class Norm : std::uint8_t {
    rms,           // x̂ · weight
    rms_plus_one,  // x̂ · (1 + weight), weight starts at 0 (Gemma)
    layer          // LayerNorm with a bias
  };
  enum class Block : std::uint8_t {
    pre,                 // x += attention(n1 x); x += mlp(n2 x)
    parallel,            // x += attention(n x) + mlp(n x)
    parallel_two_norms,  // x += attention(n1 x) + mlp(n2 x)
    sandwich,            // x += n2(attention(n1 x)); x += n4(mlp(n3 x)) (Gemma 2)
    post                 // x += n1(attention x); x += n2(mlp x) (OLMo 2)
  };
  /// Rows of the projection to q, k and v.
  enum class Qkv : std::uint8_t {
    separate,  // three layers
    rows,      // all of q, all of k, all of v
    heads,     // q, k and v of each head
    groups     // for each head of k and v: its heads of q, k, v
  };
  enum class QkNorm : std::uint8_t {
    none,
    head,  // over each head, one weight [head_dim] for all
    full   // over all of q, and all of k
  };
  enum class Positions : std::uint8_t {
    rotary,
    learned,
    alibi,
    alibi_bf16  // slopes, and their products with positions, are rounded to bf16, and scaled as scores are (Falcon)
  };
  enum class Mlp : std::uint8_t {
    gated,        // down(act(gate x) · up x)
    gated_fused,  // the same, gate above up in one layer
    plain         // down(act(up x))
  };
  enum class Activation : std::uint8_t { silu, gelu, gelu_tanh };

  std::string type = "llama";  // `model_type` of transformers that it is written as
  std::int64_t vocab_size = 32000, hidden_size = 2048, intermediate_size = 5632, layers = 22, heads = 32;
  std::int64_t kv_heads = 0, head_dim = 0;  // 0: as many as heads; hidden_size / heads
  std::int64_t positions_count = 2048;
  Norm norm = Norm::rms;
  double norm_eps = 1e-5;
  Block block = Block::pre;
  Qkv qkv = Qkv::separate;
  bool qkv_bias = false, output_bias = false, mlp_bias = false;  // output_bias: of attention's last layer
  QkNorm qk_norm = QkNorm::none;
  Positions positions = Positions::rotary;
  double rotary_share = 1;  // of a head that is rotated
  bool rotary_neighbours = false;
  double rope_theta = 1e4, rope_local_theta = 0;  // the latter of layers with a window, without scaling; 0: as others
  RotaryScaling scaling{};
  std::vector<std::int64_t> layers_without_rotary{};
  std::int64_t window = 0;                      // keys that a token sees, itself included; 0: all before it
  std::vector<std::int64_t> windowed_layers{};  // empty: all, if there is a window
  double attention_scale = 0;                   // 0: head_dim^-1/2
  double attention_soft_cap = 0, soft_cap = 0;  // of scores, of logits; 0: none
  Mlp mlp = Mlp::gated;
  Activation activation = Activation::silu;
  bool scales_embedding = false;  // by hidden_size^1/2
  bool embedding_norm = false;
  bool tied = false, head_bias = false;
  std::int64_t padding = -1;  // id whose row of the table gets no gradient from the input; -1: none
  double initializer_range = 0.02;
  bool scales_residual_init = false;  // by (2 · layers)^-1/2 in layers that end in a residual sum (GPT-2)
  double attention_dropout = 0, residual_dropout = 0, embedding_dropout = 0;

  static Fields fields();
  /// Fills in what follows from other options.
  void check(HyperProblems& problems);

  bool windows(std::int64_t layer) const;
  bool rotates(std::int64_t layer) const;
  std::int64_t rotated() const;  // values of a head
};
std::array<std::pair<std::string_view, DecoderOptions::Norm>, 3> names_of(DecoderOptions::Norm);
std::array<std::pair<std::string_view, DecoderOptions::Block>, 5> names_of(DecoderOptions::Block);
std::array<std::pair<std::string_view, DecoderOptions::Qkv>, 4> names_of(DecoderOptions::Qkv);
std::array<std::pair<std::string_view, DecoderOptions::QkNorm>, 3> names_of(DecoderOptions::QkNorm);
std::array<std::pair<std::string_view, DecoderOptions::Positions>, 4> names_of(DecoderOptions::Positions);
std::array<std::pair<std::string_view, DecoderOptions::Mlp>, 3> names_of(DecoderOptions::Mlp);
std::array<std::pair<std::string_view, DecoderOptions::Activation>, 3> names_of(DecoderOptions::Activation);
std::array<std::pair<std::string_view, RotaryScaling::Kind>, 6> names_of(RotaryScaling::Kind);

}  // namespace lacuna
