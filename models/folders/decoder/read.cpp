#include "models/folders/decoder/config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;
using Config = ConfigReader;

/// The first of `keys` that the configuration says, or the last.
const char* said(const Config& c, std::initializer_list<const char*> keys) {
  for (const char* const key : keys)
    if (c.says(key)) return key;
  return *(keys.end() - 1);
}

/// A number of things, from 1 on.
std::int64_t count_in(const Config& c, const char* key, std::int64_t otherwise, std::int64_t most = 0x7fffffff) {
  const std::int64_t count = c.integer(key, otherwise);
  if (count < 1 || count > most) c.refuse(key, fmt::format("a whole number from 1 to {}", most));
  return count;
}

void refuse_others(const Config& c) {
  for (const char* const key : {"num_experts", "num_local_experts", "n_routed_experts"})
    if (c.says(key)) c.refuse(key, "absent: mixtures of experts are not there");
  for (const char* const key : {"is_decoder", "add_cross_attention", "use_bidirectional_attention"})
    if (c.says(key) && c.json().at(key) != false) c.refuse(key, "false");
  if (c.says("pretraining_tp") && c.integer("pretraining_tp", 1) != 1) c.refuse("pretraining_tp", "1");
}

DecoderOptions::Activation activation_in(const Config& c, const char* key, const std::string& otherwise) {
  const std::string name = c.text(key, otherwise);
  using enum DecoderOptions::Activation;
  if (name == "silu" || name == "swish") return silu;
  if (name == "gelu") return gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return gelu_tanh;
  c.refuse(key, "silu, gelu, gelu_new or gelu_pytorch_tanh");
}

/// rope_scaling of version 4, or a part of rope_parameters of version 5: the value of `key`, or in it.
RotaryScaling scaling_in(const Json& json, const Config& c, const char* key) {
  if (!json.is_object()) c.refuse(key, "an object");
  const Config s(json, c.file());
  if (!s.says("rope_type") && !s.says("type"))
    for (const auto& [own, value] : json.items())
      if (own != "rope_theta" && own != "partial_rotary_factor")
        c.refuse(key, fmt::format("an object with a `rope_type` beside `{}`", own));
  RotaryScaling scaling;
  const std::string kind = s.text(said(s, {"rope_type", "type"}), "default");
  using enum RotaryScaling::Kind;
  if (kind == "default") return scaling;
  const std::pair<std::string_view, RotaryScaling::Kind> kinds[] = {{"linear", linear},     {"llama3", llama3},
                                                                    {"yarn", yarn},         {"dynamic", dynamic},
                                                                    {"longrope", longrope}, {"su", longrope}};
  const auto* const found = std::ranges::find(kinds, kind, &std::pair<std::string_view, RotaryScaling::Kind>::first);
  if (found == std::end(kinds))
    s.refuse(said(s, {"rope_type", "type"}), "default, linear, llama3, yarn, dynamic or longrope");
  scaling.kind = found->second;
  if (scaling.kind == yarn && s.says("short_factor")) scaling.kind = longrope;  // older files of Phi-3
  scaling.factor = s.real("factor", 0);
  scaling.original_positions =
      s.integer("original_max_position_embeddings", c.integer("original_max_position_embeddings", 0));
  scaling.low_frequency = s.real("low_freq_factor", scaling.low_frequency);
  scaling.high_frequency = s.real("high_freq_factor", scaling.high_frequency);
  scaling.beta_fast = s.real("beta_fast", scaling.beta_fast);
  scaling.beta_slow = s.real("beta_slow", scaling.beta_slow);
  scaling.truncate = s.flag("truncate", true);
  scaling.attention_factor = s.real("attention_factor", 0);
  scaling.mscale = s.real("mscale", 0);
  scaling.mscale_all_dimensions = s.real("mscale_all_dim", 0);
  if (scaling.kind == longrope) {
    scaling.short_factors = s.numbers("short_factor");
    scaling.long_factors = s.numbers("long_factor");
  }
  return scaling;
}

/// Base, scaling and rotated part of the rotary embedding.
void read_rotary(const Config& c, DecoderOptions& o, double theta, double share = 1) {
  o.rope_theta = c.real(said(c, {"rope_theta", "rotary_emb_base"}), theta);
  o.rotary_share = c.real(said(c, {"partial_rotary_factor", "rotary_pct"}), share);
  if (c.says("rope_scaling")) o.scaling = scaling_in(c.json().at("rope_scaling"), c, "rope_scaling");
  if (!c.says("rope_parameters")) return;
  const Json& given = c.json().at("rope_parameters");
  if (!given.is_object()) c.refuse("rope_parameters", "an object");
  const auto take = [&](const Json& json) {
    const Config p(json, c.file());
    o.scaling = scaling_in(json, c, "rope_parameters");
    o.rope_theta = p.real("rope_theta", o.rope_theta);
    o.rotary_share = p.real("partial_rotary_factor", o.rotary_share);
  };
  if (!given.contains("full_attention")) return take(given);
  take(given.at("full_attention"));
  if (given.contains("sliding_attention")) {
    const Config local(given.at("sliding_attention"), c.file());
    if (scaling_in(local.json(), c, "rope_parameters").kind != RotaryScaling::Kind::none)
      local.refuse("rope_type", "default for windows");
    o.rope_local_theta = local.real("rope_theta", 0);
  }
}

/// The layers that `layer_types` gives a window; `usual` where it is absent.
void read_windows(const Config& c, DecoderOptions& o, std::int64_t window,
                  const std::function<bool(std::int64_t)>& usual) {
  const std::vector<std::string> types = c.texts("layer_types");
  if (!types.empty() && std::ssize(types) != o.layers) c.refuse("layer_types", fmt::format("of {} layers", o.layers));
  std::vector<std::int64_t> with;
  for (std::int64_t i = 0; i < o.layers; ++i) {
    const std::string type =
        types.empty() ? (usual(i) ? "sliding_attention" : "full_attention") : types[static_cast<std::size_t>(i)];
    if (type == "sliding_attention")
      with.push_back(i);
    else if (type != "full_attention")
      c.refuse("layer_types", "full_attention or sliding_attention");
  }
  if (window <= 0 || with.empty()) return;
  o.window = window;
  if (std::ssize(with) < o.layers) o.windowed_layers = with;
}

std::int64_t window_in(const Config& c, std::int64_t otherwise) {
  return c.json().contains("sliding_window") ? c.integer("sliding_window", 0) : otherwise;
}

/// The sizes, under the names that most types have.
DecoderOptions sizes_in(const Config& c, std::string type, std::int64_t padding_otherwise = -1) {
  refuse_others(c);
  DecoderOptions o;
  o.type = std::move(type);
  o.vocab_size = c.integer("vocab_size", 32000);
  o.hidden_size = count_in(c, said(c, {"n_embed", "n_embd", "hidden_size"}), 4096);
  o.layers = count_in(c, said(c, {"n_layer", "num_layers", "num_hidden_layers"}), 32, 4096);
  o.heads = c.integer(said(c, {"n_head", "num_attention_heads"}), 32);
  o.intermediate_size = c.integer("intermediate_size", 4 * o.hidden_size);
  o.positions_count = c.integer(said(c, {"n_positions", "max_position_embeddings"}), 2048);
  o.kv_heads = c.integer("num_key_value_heads", 0);
  o.head_dim = c.integer("head_dim", 0);
  o.initializer_range = c.real("initializer_range", 0.02);
  o.attention_dropout = c.real(said(c, {"attn_pdrop", "attention_dropout"}), 0);
  o.residual_dropout = c.real(said(c, {"resid_pdrop", "hidden_dropout"}), 0);
  o.embedding_dropout = c.real("embd_pdrop", 0);
  o.padding = c.json().contains("pad_token_id") ? c.integer("pad_token_id", -1) : padding_otherwise;
  if (o.padding >= o.vocab_size) o.padding = -1;  // a default of its class
  return o;
}

/// Defaults of a class of Llama's kind.
struct Usual {
  double eps = 1e-6, theta = 1e4;
  std::int64_t padding = -1;
};

DecoderOptions like_llama(const Config& c, std::string type, const Usual& usual = {}) {
  DecoderOptions o = sizes_in(c, std::move(type), usual.padding);
  o.norm_eps = c.real("rms_norm_eps", usual.eps);
  o.activation = activation_in(c, "hidden_act", "silu");
  o.qkv_bias = o.output_bias = c.flag("attention_bias", false);
  o.mlp_bias = c.flag("mlp_bias", false);
  o.tied = c.flag("tie_word_embeddings", false);
  read_rotary(c, o, usual.theta);
  if (o.rotary_share != 1 && o.type != "phi3")  // transformers' classes rotate whole heads whatever the file says
    c.refuse(c.says("rope_parameters") ? "rope_parameters" : "partial_rotary_factor", "absent or 1");
  return o;
}

/// The class's number of heads of keys, where the file has no key for it; null: as many as heads.
void usual_kv_heads(const Config& c, DecoderOptions& o, std::int64_t otherwise) {
  if (!c.json().contains("num_key_value_heads")) o.kv_heads = std::min(otherwise, o.heads);
}

/// Windows of Qwen: only if use_sliding_window, and from max_window_layers on.
void read_qwen_windows(const Config& c, DecoderOptions& o) {
  const std::int64_t first = c.integer("max_window_layers", 28);
  if (c.flag("use_sliding_window", false))
    read_windows(c, o, window_in(c, 4096), [&](std::int64_t layer) { return layer >= first; });
}

DecoderOptions like_gemma(const Config& c, std::string type, std::int64_t kv_heads,
                          const char* activation = "hidden_activation") {
  DecoderOptions o = like_llama(c, std::move(type), {.padding = 0});
  usual_kv_heads(c, o, kv_heads);
  o.norm = DecoderOptions::Norm::rms_plus_one;
  o.head_dim = c.integer("head_dim", 256);
  o.tied = c.flag("tie_word_embeddings", true);
  o.scales_embedding = true;
  o.activation = activation_in(c, activation, "gelu_pytorch_tanh");
  return o;
}

}  // namespace

DecoderOptions read_llama(const Config& c) { return like_llama(c, "llama"); }

DecoderOptions read_mistral(const Config& c) {
  DecoderOptions o = like_llama(c, "mistral");
  o.qkv_bias = o.output_bias = o.mlp_bias = false;
  usual_kv_heads(c, o, 8);
  read_windows(c, o, window_in(c, 4096), [](std::int64_t) { return true; });
  return o;
}

DecoderOptions read_qwen2(const Config& c) {
  DecoderOptions o = like_llama(c, "qwen2");
  usual_kv_heads(c, o, 32);
  o.qkv_bias = true;
  o.output_bias = o.mlp_bias = false;
  read_qwen_windows(c, o);
  return o;
}

DecoderOptions read_qwen3(const Config& c) {
  DecoderOptions o = like_llama(c, "qwen3");
  usual_kv_heads(c, o, 32);
  o.qk_norm = DecoderOptions::QkNorm::head;
  o.head_dim = c.integer("head_dim", 128);
  read_qwen_windows(c, o);
  return o;
}

DecoderOptions read_gemma(const Config& c) {
  DecoderOptions o = like_gemma(c, "gemma", 16, "hidden_act");
  using enum DecoderOptions::Activation;
  if (o.activation == gelu) o.activation = gelu_tanh;  // which the first files mean
  return o;
}

DecoderOptions read_gemma2(const Config& c) {
  DecoderOptions o = like_gemma(c, "gemma2", 4);
  o.block = DecoderOptions::Block::sandwich;
  o.attention_scale = 1 / std::sqrt(c.real("query_pre_attn_scalar", 256));
  o.attention_soft_cap = c.json().contains("attn_logit_softcapping") ? c.real("attn_logit_softcapping", 0) : 50;
  o.soft_cap = c.json().contains("final_logit_softcapping") ? c.real("final_logit_softcapping", 0) : 30;
  read_windows(c, o, window_in(c, 4096), [](std::int64_t layer) { return layer % 2 == 0; });
  return o;
}

DecoderOptions read_gemma3(const Config& c) {
  DecoderOptions o = like_gemma(c, "gemma3_text", 4);
  o.block = DecoderOptions::Block::sandwich;
  o.qk_norm = DecoderOptions::QkNorm::head;
  o.attention_scale = 1 / std::sqrt(c.real("query_pre_attn_scalar", 256));
  o.soft_cap = c.real("final_logit_softcapping", 0);
  o.rope_local_theta = c.real("rope_local_base_freq", 1e4);
  read_rotary(c, o, 1e6);
  const std::int64_t pattern = count_in(c, said(c, {"_sliding_window_pattern", "sliding_window_pattern"}), 6);
  read_windows(c, o, window_in(c, 4096), [&](std::int64_t layer) { return (layer + 1) % pattern != 0; });
  return o;
}

DecoderOptions read_phi(const Config& c) {
  DecoderOptions o = sizes_in(c, "phi");
  o.norm = DecoderOptions::Norm::layer;
  o.norm_eps = c.real("layer_norm_eps", 1e-5);
  o.block = DecoderOptions::Block::parallel;
  o.qkv_bias = o.output_bias = o.mlp_bias = o.head_bias = true;
  o.mlp = DecoderOptions::Mlp::plain;
  o.activation = activation_in(c, "hidden_act", "gelu_new");
  if (c.flag("qk_layernorm", false)) o.qk_norm = DecoderOptions::QkNorm::head;
  o.tied = c.flag("tie_word_embeddings", false);
  read_rotary(c, o, 1e4, 0.5);
  return o;
}

DecoderOptions read_phi3(const Config& c) {
  DecoderOptions o = like_llama(c, "phi3", {.eps = 1e-5, .padding = 32000});
  o.qkv = DecoderOptions::Qkv::rows;
  o.mlp = DecoderOptions::Mlp::gated_fused;
  o.qkv_bias = o.output_bias = o.mlp_bias = false;
  if (o.scaling.kind == RotaryScaling::Kind::longrope && o.scaling.original_positions == 0)
    o.scaling.original_positions = 4096;
  read_windows(c, o, window_in(c, 0), [](std::int64_t) { return true; });
  return o;
}

DecoderOptions read_gpt2(const Config& c) {
  if (c.flag("scale_attn_by_inverse_layer_idx", false)) c.refuse("scale_attn_by_inverse_layer_idx", "false");
  if (!c.flag("scale_attn_weights", true)) c.refuse("scale_attn_weights", "true");
  DecoderOptions o = sizes_in(c, "gpt2");
  o.vocab_size = c.integer("vocab_size", 50257);
  o.hidden_size = count_in(c, "n_embd", 768);
  o.layers = count_in(c, "n_layer", 12, 4096);
  o.heads = c.integer("n_head", 12);
  o.intermediate_size = c.integer("n_inner", 4 * o.hidden_size);
  o.positions_count = c.integer("n_positions", 1024);
  o.norm = DecoderOptions::Norm::layer;
  o.norm_eps = c.real("layer_norm_epsilon", 1e-5);
  o.positions = DecoderOptions::Positions::learned;
  o.qkv = DecoderOptions::Qkv::rows;
  o.qkv_bias = o.output_bias = o.mlp_bias = true;
  o.mlp = DecoderOptions::Mlp::plain;
  o.activation = activation_in(c, "activation_function", "gelu_new");
  o.tied = c.flag("tie_word_embeddings", true);
  o.padding = -1;
  o.scales_residual_init = true;
  o.attention_dropout = c.real("attn_pdrop", 0.1);
  o.residual_dropout = c.real("resid_pdrop", 0.1);
  o.embedding_dropout = c.real("embd_pdrop", 0.1);
  return o;
}

DecoderOptions read_gpt_neox(const Config& c) {
  DecoderOptions o = sizes_in(c, "gpt_neox");
  o.norm = DecoderOptions::Norm::layer;
  o.norm_eps = c.real("layer_norm_eps", 1e-5);
  if (c.flag("use_parallel_residual", true)) o.block = DecoderOptions::Block::parallel_two_norms;
  o.qkv = DecoderOptions::Qkv::heads;
  o.qkv_bias = o.output_bias = c.flag("attention_bias", true);
  o.mlp_bias = true;
  o.mlp = DecoderOptions::Mlp::plain;
  o.activation = activation_in(c, "hidden_act", "gelu");
  o.tied = c.flag("tie_word_embeddings", false);
  o.padding = -1;
  o.embedding_dropout = o.residual_dropout;
  read_rotary(c, o, 1e4, 0.25);
  return o;
}

DecoderOptions read_bloom(const Config& c) {
  if (c.flag("apply_residual_connection_post_layernorm", false))
    c.refuse("apply_residual_connection_post_layernorm", "false");
  DecoderOptions o = sizes_in(c, "bloom");
  o.positions_count = c.integer("seq_length", 2048);
  o.norm = DecoderOptions::Norm::layer;
  o.norm_eps = c.real("layer_norm_epsilon", 1e-5);
  o.positions = DecoderOptions::Positions::alibi;
  o.embedding_norm = true;
  o.qkv = DecoderOptions::Qkv::heads;
  o.qkv_bias = o.output_bias = o.mlp_bias = true;
  o.mlp = DecoderOptions::Mlp::plain;
  o.activation = DecoderOptions::Activation::gelu_tanh;
  o.tied = c.flag("tie_word_embeddings", true);
  o.padding = -1;
  return o;
}

DecoderOptions read_falcon(const Config& c) {
  DecoderOptions o = sizes_in(c, "falcon");
  const std::int64_t kv_heads = c.integer(said(c, {"n_head_kv", "num_kv_heads"}), o.heads);
  o.head_dim = 0;
  o.intermediate_size = c.integer("ffn_hidden_size", 4 * o.hidden_size);
  o.norm = DecoderOptions::Norm::layer;
  o.norm_eps = c.real("layer_norm_epsilon", 1e-5);
  o.qkv_bias = o.output_bias = o.mlp_bias = c.flag("bias", false);
  o.mlp = DecoderOptions::Mlp::plain;
  o.activation = activation_in(c, "activation", "gelu");
  o.tied = c.flag("tie_word_embeddings", true);
  o.padding = -1;
  o.positions = c.flag("alibi", false) ? DecoderOptions::Positions::alibi_bf16 : DecoderOptions::Positions::rotary;
  using Block = DecoderOptions::Block;
  if (c.flag("new_decoder_architecture", false) || c.text("model_type", "") == "RefinedWeb") {
    o.kv_heads = kv_heads;
    o.qkv = DecoderOptions::Qkv::groups;
    o.block = c.integer("num_ln_in_parallel_attn", 2) == 2 ? Block::parallel_two_norms : Block::parallel;
  } else {
    const bool shares = c.flag("multi_query", true);
    o.kv_heads = shares ? 1 : o.heads;
    o.qkv = shares ? DecoderOptions::Qkv::groups : DecoderOptions::Qkv::heads;
    o.block = c.flag("parallel_attn", true) ? Block::parallel : Block::pre;
  }
  if (o.positions == DecoderOptions::Positions::rotary) read_rotary(c, o, 1e4);
  return o;
}

DecoderOptions read_smollm3(const Config& c) {
  DecoderOptions o = like_llama(c, "smollm3", {.theta = 2e6, .padding = 128004});
  usual_kv_heads(c, o, 4);
  o.tied = c.flag("tie_word_embeddings", true);
  const std::int64_t interval = count_in(c, "no_rope_layer_interval", 4);
  std::vector<std::int64_t> usual;
  for (std::int64_t i = 0; i < o.layers; ++i) usual.push_back((i + 1) % interval != 0 ? 1 : 0);
  const std::vector<std::int64_t> rotates = c.integers("no_rope_layers", usual);  // 1 where it rotates
  if (std::ssize(rotates) != o.layers) c.refuse("no_rope_layers", fmt::format("of {} layers", o.layers));
  for (std::int64_t i = 0; i < o.layers; ++i)
    if (rotates[static_cast<std::size_t>(i)] == 0) o.layers_without_rotary.push_back(i);
  if (c.flag("use_sliding_window", false))
    read_windows(c, o, window_in(c, 0), [&](std::int64_t i) { return rotates[static_cast<std::size_t>(i)] == 0; });
  return o;
}

DecoderOptions read_olmo2(const Config& c) {
  DecoderOptions o = like_llama(c, "olmo2", {.eps = 1e-5, .padding = 1});
  o.block = DecoderOptions::Block::post;
  o.qk_norm = DecoderOptions::QkNorm::full;
  o.mlp_bias = false;
  return o;
}

DecoderOptions read_chatglm(const Config& c) {
  if (!c.flag("rmsnorm", true)) c.refuse("rmsnorm", "true");
  if (!c.flag("post_layer_norm", true)) c.refuse("post_layer_norm", "true");
  if (c.flag("apply_residual_connection_post_layernorm", false))
    c.refuse("apply_residual_connection_post_layernorm", "false");
  DecoderOptions o = sizes_in(c, "chatglm");
  o.vocab_size = c.integer(said(c, {"padded_vocab_size", "vocab_size"}), 65024);
  o.intermediate_size = c.integer("ffn_hidden_size", 13696);
  o.head_dim = c.integer("kv_channels", 128);
  o.kv_heads = c.flag("multi_query_attention", true) ? c.integer("multi_query_group_num", 2) : o.heads;
  o.positions_count = c.integer("seq_length", 2048);
  o.norm_eps = c.real("layernorm_epsilon", 1e-5);
  o.qkv = DecoderOptions::Qkv::rows;
  o.output_bias = o.mlp_bias = c.flag("add_bias_linear", false);
  o.qkv_bias = c.flag("add_qkv_bias", true) || o.output_bias;
  o.mlp = DecoderOptions::Mlp::gated_fused;
  o.tied = c.flag("tie_word_embeddings", false);
  o.padding = -1;
  o.rotary_share = 0.5;
  o.rotary_neighbours = true;
  o.rope_theta = 1e4 * c.real("rope_ratio", 1);
  return o;
}

std::vector<HyperParameter> values_of(const DecoderOptions& options) {
  std::vector<HyperParameter> values;
  const DecoderOptions usual;
  for (const Field& field : DecoderOptions::fields())
    if (Tree value = field.write(&options); !(value == field.write(&usual)))
      values.push_back({std::string(field.name), std::move(value)});
  return values;
}

}  // namespace lacuna
