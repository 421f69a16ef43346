#include "models/folders/decoder/config.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;

std::string name_of_activation(DecoderOptions::Activation activation, std::string_view tanh_name) {
  using enum DecoderOptions::Activation;
  return activation == silu ? "silu" : activation == gelu ? "gelu" : std::string(tanh_name);
}

Json json_of(const RotaryScaling& scaling) {
  Json json;
  for (const auto& [name, kind] : names_of(scaling.kind))
    if (kind == scaling.kind) json["rope_type"] = name;
  const auto add = [&](const char* key, double value, double otherwise) {
    if (value != otherwise) json[key] = value;
  };
  using enum RotaryScaling::Kind;
  add("factor", scaling.factor, 0);
  if (scaling.original_positions > 0) json["original_max_position_embeddings"] = scaling.original_positions;
  if (scaling.kind == llama3) {
    json["low_freq_factor"] = scaling.low_frequency;
    json["high_freq_factor"] = scaling.high_frequency;
  }
  add("beta_fast", scaling.beta_fast, 32);
  add("beta_slow", scaling.beta_slow, 1);
  if (!scaling.truncate) json["truncate"] = false;
  add("attention_factor", scaling.attention_factor, 0);
  add("mscale", scaling.mscale, 0);
  add("mscale_all_dim", scaling.mscale_all_dimensions, 0);
  if (scaling.kind == longrope) {
    json["short_factor"] = scaling.short_factors;
    json["long_factor"] = scaling.long_factors;
  }
  return json;
}

Json sizes_of(const DecoderOptions& o) {
  Json json{{"vocab_size", o.vocab_size},
            {"hidden_size", o.hidden_size},
            {"intermediate_size", o.intermediate_size},
            {"num_hidden_layers", o.layers},
            {"num_attention_heads", o.heads},
            {"num_key_value_heads", o.kv_heads},
            {"head_dim", o.head_dim},
            {"max_position_embeddings", o.positions_count},
            {"initializer_range", o.initializer_range},
            {"tie_word_embeddings", o.tied},
            {"attention_dropout", o.attention_dropout}};
  json["pad_token_id"] = o.padding < 0 ? Json() : Json(o.padding);
  if (o.positions == DecoderOptions::Positions::rotary) {
    json["rope_theta"] = o.rope_theta;
    json["rope_scaling"] = o.scaling.kind == RotaryScaling::Kind::none ? Json() : json_of(o.scaling);
  }
  return json;
}

Json windows_of(const DecoderOptions& o) {
  Json types = Json::array();
  for (std::int64_t i = 0; i < o.layers; ++i) types.push_back(o.windows(i) ? "sliding_attention" : "full_attention");
  return types;
}

Json written_like_llama(const DecoderOptions& o) {
  Json json = sizes_of(o);
  json["rms_norm_eps"] = o.norm_eps;
  json["hidden_act"] = name_of_activation(o.activation, "gelu_pytorch_tanh");
  json["attention_bias"] = o.output_bias;
  return json;
}

}  // namespace

Json written_llama(const DecoderOptions& o) {
  Json json = written_like_llama(o);
  json["mlp_bias"] = o.mlp_bias;
  return json;
}

Json written_mistral(const DecoderOptions& o) {
  Json json = written_like_llama(o);
  json.erase("attention_bias");
  json["sliding_window"] = o.window == 0 ? Json() : Json(o.window);
  return json;
}

Json written_qwen(const DecoderOptions& o) {
  Json json = written_like_llama(o);
  if (o.type == "qwen2") json.erase("attention_bias");
  if (o.type == "qwen2") json.erase("head_dim");
  json["use_sliding_window"] = o.window > 0;
  json["sliding_window"] = o.window == 0 ? Json() : Json(o.window);
  json["layer_types"] = windows_of(o);
  return json;
}

Json written_gemma(const DecoderOptions& o) {
  Json json = written_like_llama(o);
  json["hidden_activation"] = json["hidden_act"];
  if (o.type == "gemma") return json;
  json["query_pre_attn_scalar"] = std::llround(1 / (o.attention_scale * o.attention_scale));
  json["sliding_window"] = o.window;
  json["layer_types"] = windows_of(o);
  json["final_logit_softcapping"] = o.soft_cap == 0 ? Json() : Json(o.soft_cap);
  if (o.type == "gemma2")
    json["attn_logit_softcapping"] = o.attention_soft_cap == 0 ? Json() : Json(o.attention_soft_cap);
  else
    json["rope_local_base_freq"] = o.rope_local_theta;
  return json;
}

Json written_phi(const DecoderOptions& o) {
  Json json = sizes_of(o);
  json.erase("head_dim");
  json["layer_norm_eps"] = o.norm_eps;
  json["hidden_act"] = name_of_activation(o.activation, "gelu_new");
  json["partial_rotary_factor"] = o.rotary_share;
  json["qk_layernorm"] = o.qk_norm == DecoderOptions::QkNorm::head;
  json["resid_pdrop"] = o.residual_dropout;
  json["embd_pdrop"] = o.embedding_dropout;
  return json;
}

Json written_phi3(const DecoderOptions& o) {
  Json json = written_like_llama(o);
  json.erase("attention_bias");
  json.erase("head_dim");
  json["partial_rotary_factor"] = o.rotary_share;
  json["sliding_window"] = o.window == 0 ? Json() : Json(o.window);
  json["resid_pdrop"] = o.residual_dropout;
  json["embd_pdrop"] = o.embedding_dropout;
  if (o.scaling.original_positions > 0) {
    json["original_max_position_embeddings"] = o.scaling.original_positions;
    json["rope_scaling"].erase("original_max_position_embeddings");
  }
  return json;
}

Json written_gpt2(const DecoderOptions& o) {
  return {{"vocab_size", o.vocab_size},
          {"n_embd", o.hidden_size},
          {"n_layer", o.layers},
          {"n_head", o.heads},
          {"n_inner", o.intermediate_size},
          {"n_positions", o.positions_count},
          {"activation_function", name_of_activation(o.activation, "gelu_new")},
          {"layer_norm_epsilon", o.norm_eps},
          {"initializer_range", o.initializer_range},
          {"tie_word_embeddings", o.tied},
          {"attn_pdrop", o.attention_dropout},
          {"resid_pdrop", o.residual_dropout},
          {"embd_pdrop", o.embedding_dropout}};
}

Json written_gpt_neox(const DecoderOptions& o) {
  Json json = sizes_of(o);
  for (const char* const key : {"head_dim", "num_key_value_heads", "rope_theta", "pad_token_id"}) json.erase(key);
  json["layer_norm_eps"] = o.norm_eps;
  json["use_parallel_residual"] = o.block == DecoderOptions::Block::parallel_two_norms;
  json["attention_bias"] = o.qkv_bias;
  json["hidden_act"] = name_of_activation(o.activation, "gelu_new");
  json["rotary_pct"] = o.rotary_share;
  json["rotary_emb_base"] = o.rope_theta;
  json["hidden_dropout"] = o.residual_dropout;
  return json;
}

Json written_bloom(const DecoderOptions& o) {
  return {{"vocab_size", o.vocab_size},
          {"hidden_size", o.hidden_size},
          {"n_layer", o.layers},
          {"n_head", o.heads},
          {"seq_length", o.positions_count},
          {"layer_norm_epsilon", o.norm_eps},
          {"initializer_range", o.initializer_range},
          {"tie_word_embeddings", o.tied},
          {"attention_dropout", o.attention_dropout},
          {"hidden_dropout", o.residual_dropout}};
}

Json written_falcon(const DecoderOptions& o) {
  Json json = sizes_of(o);
  for (const char* const key : {"head_dim", "num_key_value_heads", "intermediate_size", "pad_token_id"})
    json.erase(key);
  using Block = DecoderOptions::Block;
  const bool is_new = o.qkv == DecoderOptions::Qkv::groups && (o.kv_heads > 1 || o.block == Block::parallel_two_norms);
  json["ffn_hidden_size"] = o.intermediate_size;
  json["layer_norm_epsilon"] = o.norm_eps;
  json["bias"] = o.qkv_bias;
  json["activation"] = name_of_activation(o.activation, "gelu_pytorch_tanh");
  json["alibi"] = o.positions != DecoderOptions::Positions::rotary;
  json["new_decoder_architecture"] = is_new;
  if (is_new) {
    json["num_kv_heads"] = o.kv_heads;
    json["num_ln_in_parallel_attn"] = o.block == Block::parallel_two_norms ? 2 : 1;
  }
  json["multi_query"] = o.kv_heads < o.heads;
  json["parallel_attn"] = o.block != Block::pre;
  json["hidden_dropout"] = o.residual_dropout;
  return json;
}

Json written_smollm3(const DecoderOptions& o) {
  Json json = written_llama(o);
  Json rotates = Json::array();
  for (std::int64_t i = 0; i < o.layers; ++i) rotates.push_back(o.rotates(i) ? 1 : 0);
  json["no_rope_layers"] = rotates;
  json["use_sliding_window"] = o.window > 0;
  json["sliding_window"] = o.window == 0 ? Json() : Json(o.window);
  json["layer_types"] = windows_of(o);
  json.erase("head_dim");
  return json;
}

Json written_olmo2(const DecoderOptions& o) {
  Json json = written_like_llama(o);
  json.erase("head_dim");
  return json;
}

Json written_chatglm(const DecoderOptions& o) {
  return {{"padded_vocab_size", o.vocab_size},
          {"hidden_size", o.hidden_size},
          {"ffn_hidden_size", o.intermediate_size},
          {"num_layers", o.layers},
          {"num_attention_heads", o.heads},
          {"kv_channels", o.head_dim},
          {"multi_query_attention", true},
          {"multi_query_group_num", o.kv_heads},
          {"seq_length", o.positions_count},
          {"layernorm_epsilon", o.norm_eps},
          {"add_qkv_bias", o.qkv_bias},
          {"add_bias_linear", o.output_bias},
          {"rmsnorm", true},
          {"rope_ratio", o.rope_theta / 1e4},
          {"initializer_range", o.initializer_range},
          {"tie_word_embeddings", o.tied},
          {"attention_dropout", o.attention_dropout},
          {"hidden_dropout", o.residual_dropout}};
}

}  // namespace lacuna
