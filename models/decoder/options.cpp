#include "models/decoder/options.h"

#include <fmt/format.h>

#include <algorithm>

namespace lacuna {
namespace {

/// A field of the member `scaling`.
template <class T, class... Traits>
Field scaling_field(std::string_view name, T RotaryScaling::*member, const Traits&... traits) {
  Field row = field(name, member, traits...);
  row.address = [member](void* object) -> void* { return &(static_cast<DecoderOptions*>(object)->scaling.*member); };
  return row;
}

}  // namespace

Fields DecoderOptions::fields() {
  using D = DecoderOptions;
  return {
      field("type", &D::type, "model_type of transformers that its folders have"),
      field("vocab_size", &D::vocab_size, count_range, "rows of the table of tokens"),
      field("hidden_size", &D::hidden_size, count_range, "width of the tokens"),
      field("intermediate_size", &D::intermediate_size, count_range, "hidden width of the MLP"),
      field("num_hidden_layers", &D::layers, between(1, 4096), "number of layers"),
      field("num_attention_heads", &D::heads, count_range, "heads of queries"),
      field("num_key_value_heads", &D::kv_heads, up_to(0x7fffffff), "heads of keys and values; 0: as of queries"),
      field("head_dim", &D::head_dim, up_to(largest_extent), "width of a head; 0: hidden_size / num_attention_heads"),
      field("max_position_embeddings", &D::positions_count, count_range, "longest sequence in tokens"),
      field("norm", &D::norm, "norms: RMS, RMS with 1 + weight, or LayerNorm"),
      field("norm_eps", &D::norm_eps, epsilon_range, "epsilon of the norms"),
      field("block", &D::block, "order of norms, attention and MLP in a layer"),
      field("qkv", &D::qkv, "rows of the projection to q, k and v"),
      field("qkv_bias", &D::qkv_bias, "whether the projection to q, k and v has a bias"),
      field("output_bias", &D::output_bias, "whether the projection behind attention has a bias"),
      field("mlp_bias", &D::mlp_bias, "whether the layers of the MLP have a bias"),
      field("qk_norm", &D::qk_norm, "norm of q and k: of each head, or of all"),
      field("positions", &D::positions, "rotary embedding, a learned table, or ALiBi"),
      field("rotary_share", &D::rotary_share, NumberRange{.low = 1e-6, .high = 1, .below_high = false},
            "part of each head that is rotated"),
      field("rotary_neighbours", &D::rotary_neighbours, "whether neighbours are rotated, and not halves"),
      field("rope_theta", &D::rope_theta, at_least(1), "base of the rotary frequencies"),
      field("rope_local_theta", &D::rope_local_theta, "the same in layers with a window, unscaled; 0: as the others"),
      scaling_field("rope_scaling", &RotaryScaling::kind, "scaling of the rotary frequencies"),
      scaling_field("rope_factor", &RotaryScaling::factor, "factor of the scaling; 0: not given"),
      scaling_field("rope_original_positions", &RotaryScaling::original_positions, up_to(0x7fffffff),
                    "tokens of the longest sequence before scaling; 0: max_position_embeddings"),
      scaling_field("rope_low_frequency", &RotaryScaling::low_frequency, "llama3: low_freq_factor"),
      scaling_field("rope_high_frequency", &RotaryScaling::high_frequency, "llama3: high_freq_factor"),
      scaling_field("rope_beta_fast", &RotaryScaling::beta_fast, "yarn: beta_fast"),
      scaling_field("rope_beta_slow", &RotaryScaling::beta_slow, "yarn: beta_slow"),
      scaling_field("rope_truncate", &RotaryScaling::truncate, "yarn: whole dimensions as the ends of the ramp"),
      scaling_field("rope_attention_factor", &RotaryScaling::attention_factor,
                    "yarn, longrope: factor of cosines and sines; 0: by their formulas"),
      scaling_field("rope_mscale", &RotaryScaling::mscale, "yarn: mscale; 0: not given"),
      scaling_field("rope_mscale_all_dim", &RotaryScaling::mscale_all_dimensions, "yarn: mscale_all_dim; 0: not given"),
      scaling_field("rope_short_factor", &RotaryScaling::short_factors, "longrope: short_factor"),
      scaling_field("rope_long_factor", &RotaryScaling::long_factors, "longrope: long_factor"),
      field("layers_without_rotary", &D::layers_without_rotary, "numbers of layers whose heads are not rotated"),
      field("window", &D::window, up_to(0x7fffffff), "tokens that a token sees, itself included; 0: all before it"),
      field("windowed_layers", &D::windowed_layers, "numbers of the layers with the window; empty: all"),
      field("attention_scale", &D::attention_scale, "factor of scores; 0: head_dim^-1/2"),
      field("attention_soft_cap", &D::attention_soft_cap, "bound of scores, by tanh; 0: none"),
      field("soft_cap", &D::soft_cap, "bound of logits, by tanh; 0: none"),
      field("mlp", &D::mlp, "MLP: gated, gated with one layer for both parts, or plain"),
      field("activation", &D::activation, "activation function of the MLP"),
      field("scales_embedding", &D::scales_embedding, "whether embeddings are multiplied by hidden_size^1/2"),
      field("embedding_norm", &D::embedding_norm, "whether a norm stands behind the embedding"),
      field("tied", &D::tied, "whether the head is the table of tokens"),
      field("head_bias", &D::head_bias, "whether the head has a bias"),
      field("pad_token_id", &D::padding, between(-1, 0x7fffffff),
            "id whose row gets no gradient from the input; -1: none"),
      field("initializer_range", &D::initializer_range, fits_weights, "standard deviation of initial weights"),
      field("scales_residual_init", &D::scales_residual_init, fits_weights,
            "whether that of layers before residual sums is divided by (2 num_hidden_layers)^1/2"),
      field("attention_dropout", &D::attention_dropout, rate_range, fits_weights, "dropout of attention probabilities"),
      field("residual_dropout", &D::residual_dropout, rate_range, fits_weights, "dropout before residual sums"),
      field("embedding_dropout", &D::embedding_dropout, rate_range, fits_weights, "dropout of embeddings")};
}

void DecoderOptions::check(HyperProblems& problems) {
  if (kv_heads == 0) kv_heads = heads;
  if (head_dim == 0) {
    if (hidden_size % heads != 0)
      problems.add("head_dim", fmt::format("`head_dim` is not given, and `hidden_size` {} is not divisible by the {} "
                                           "heads",
                                           hidden_size, heads));
    head_dim = hidden_size / heads;
  }
  if (heads % kv_heads != 0)
    problems.add("num_key_value_heads",
                 fmt::format("{} heads are not divisible by `num_key_value_heads` {}", heads, kv_heads));
  if (qkv == Qkv::heads && kv_heads != heads)
    problems.add("qkv",
                 fmt::format("`qkv: heads` needs as many heads of keys as of queries, got {} and {}", kv_heads, heads));
  if (padding >= vocab_size)
    problems.add("pad_token_id", fmt::format("`pad_token_id` {} is not in the vocabulary of {}", padding, vocab_size));
  if (positions == Positions::rotary && rotated() + rotated() % 2 > head_dim)
    problems.add("head_dim", fmt::format("`head_dim` {} is odd: pairs of values are rotated", head_dim));
  for (const auto& [key, listed] :
       {std::pair{"windowed_layers", &windowed_layers}, {"layers_without_rotary", &layers_without_rotary}})
    for (const std::int64_t layer : *listed)
      if (layer < 0 || layer >= layers)
        problems.add(key, fmt::format("`{}`: expected numbers of layers from 0 to {}, got {}", key, layers - 1, layer));
  if (window == 0 && !windowed_layers.empty())
    problems.add("windowed_layers", "`windowed_layers` has no effect without `window`");
}

bool DecoderOptions::windows(std::int64_t layer) const {
  return window > 0 && (windowed_layers.empty() || std::ranges::find(windowed_layers, layer) != windowed_layers.end());
}
bool DecoderOptions::rotates(std::int64_t layer) const {
  return positions == Positions::rotary &&
         std::ranges::find(layers_without_rotary, layer) == layers_without_rotary.end();
}
std::int64_t DecoderOptions::rotated() const {
  return static_cast<std::int64_t>(static_cast<double>(head_dim) * rotary_share);
}

std::array<std::pair<std::string_view, DecoderOptions::Norm>, 3> names_of(DecoderOptions::Norm) {
  using enum DecoderOptions::Norm;
  return {{{"rms", rms}, {"rms_plus_one", rms_plus_one}, {"layer", layer}}};
}
std::array<std::pair<std::string_view, DecoderOptions::Block>, 5> names_of(DecoderOptions::Block) {
  using enum DecoderOptions::Block;
  return {{{"pre", pre},
           {"parallel", parallel},
           {"parallel_two_norms", parallel_two_norms},
           {"sandwich", sandwich},
           {"post", post}}};
}
std::array<std::pair<std::string_view, DecoderOptions::Qkv>, 4> names_of(DecoderOptions::Qkv) {
  using enum DecoderOptions::Qkv;
  return {{{"separate", separate}, {"rows", rows}, {"heads", heads}, {"groups", groups}}};
}
std::array<std::pair<std::string_view, DecoderOptions::QkNorm>, 3> names_of(DecoderOptions::QkNorm) {
  using enum DecoderOptions::QkNorm;
  return {{{"none", none}, {"head", head}, {"full", full}}};
}
std::array<std::pair<std::string_view, DecoderOptions::Positions>, 4> names_of(DecoderOptions::Positions) {
  using enum DecoderOptions::Positions;
  return {{{"rotary", rotary}, {"learned", learned}, {"alibi", alibi}, {"alibi_bf16", alibi_bf16}}};
}
std::array<std::pair<std::string_view, DecoderOptions::Mlp>, 3> names_of(DecoderOptions::Mlp) {
  using enum DecoderOptions::Mlp;
  return {{{"gated", gated}, {"gated_fused", gated_fused}, {"plain", plain}}};
}
std::array<std::pair<std::string_view, DecoderOptions::Activation>, 3> names_of(DecoderOptions::Activation) {
  using enum DecoderOptions::Activation;
  return {{{"silu", silu}, {"gelu", gelu}, {"gelu_tanh", gelu_tanh}}};
}
std::array<std::pair<std::string_view, RotaryScaling::Kind>, 6> names_of(RotaryScaling::Kind) {
  using enum RotaryScaling::Kind;
  return {{{"none", none},
           {"linear", linear},
           {"llama3", llama3},
           {"yarn", yarn},
           {"dynamic", dynamic},
           {"longrope", longrope}}};
}

}  // namespace lacuna
