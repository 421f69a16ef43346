#include "models/folders/decoder/names.h"

namespace lacuna {
namespace {

using Rules = std::vector<TensorNameRule>;

constexpr std::string_view q_proj = "model.layers.*.self_attn.q_proj.", k_proj = "model.layers.*.self_attn.k_proj.",
                           v_proj = "model.layers.*.self_attn.v_proj.", o_proj = "model.layers.*.self_attn.o_proj.",
                           qkv_proj = "model.layers.*.self_attn.qkv_proj.", gate_proj = "model.layers.*.mlp.gate_proj.",
                           up_proj = "model.layers.*.mlp.up_proj.", down_proj = "model.layers.*.mlp.down_proj.",
                           gate_up_proj = "model.layers.*.mlp.gate_up_proj.",
                           first_norm = "model.layers.*.input_layernorm.",
                           second_norm = "model.layers.*.post_attention_layernorm.",
                           q_norm = "model.layers.*.self_attn.q_norm.", k_norm = "model.layers.*.self_attn.k_norm.",
                           words = "model.embed_tokens.", last_norm = "model.norm.", head = "lm_head.";

Rules bloom_rules(std::string_view attention_norm, std::string_view mlp_norm) {
  Rules rules{{"word_embeddings.", words},
              {"word_embeddings_layernorm.", "model.embed_norm."},
              {"h.*.self_attention.query_key_value.", qkv_proj},
              {"h.*.self_attention.dense.", o_proj},
              {"h.*.mlp.dense_h_to_4h.", up_proj},
              {"h.*.mlp.dense_4h_to_h.", down_proj},
              {"ln_f.", last_norm}};
  rules.push_back({attention_norm, first_norm});
  rules.push_back({mlp_norm, second_norm});
  return rules;
}

}  // namespace

const TensorNames llama_names{
    .base = "model.",
    .body = {{"embed_tokens.", words},
             {"layers.*.input_layernorm.", first_norm},
             {"layers.*.post_attention_layernorm.", second_norm},
             {"layers.*.pre_feedforward_layernorm.", "model.layers.*.pre_feedforward_layernorm."},
             {"layers.*.post_feedforward_layernorm.", "model.layers.*.post_feedforward_layernorm."},
             {"layers.*.self_attn.q_proj.", q_proj},
             {"layers.*.self_attn.k_proj.", k_proj},
             {"layers.*.self_attn.v_proj.", v_proj},
             {"layers.*.self_attn.qkv_proj.", qkv_proj},
             {"layers.*.self_attn.o_proj.", o_proj},
             {"layers.*.self_attn.q_norm.", q_norm},
             {"layers.*.self_attn.k_norm.", k_norm},
             {"layers.*.mlp.gate_proj.", gate_proj},
             {"layers.*.mlp.up_proj.", up_proj},
             {"layers.*.mlp.gate_up_proj.", gate_up_proj},
             {"layers.*.mlp.down_proj.", down_proj},
             {"norm.", last_norm}},
    .heads = {{"lm_head.", head}},
    .ignored = {"layers.*.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"}};

const TensorNames phi_names{.base = "model.",
                            .body = {{"embed_tokens.", words},
                                     {"layers.*.input_layernorm.", first_norm},
                                     {"layers.*.self_attn.q_proj.", q_proj},
                                     {"layers.*.self_attn.k_proj.", k_proj},
                                     {"layers.*.self_attn.v_proj.", v_proj},
                                     {"layers.*.self_attn.dense.", o_proj},
                                     {"layers.*.self_attn.q_layernorm.", q_norm},
                                     {"layers.*.self_attn.k_layernorm.", k_norm},
                                     {"layers.*.mlp.fc1.", up_proj},
                                     {"layers.*.mlp.fc2.", down_proj},
                                     {"final_layernorm.", last_norm}},
                            .heads = {{"lm_head.", head}},
                            .ignored = {"layers.*.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"}};

const TensorNames gpt2_names{.base = "transformer.",
                             .body = {{"wte.", words},
                                      {"wpe.", "model.embed_positions."},
                                      {"h.*.ln_1.", first_norm},
                                      {"h.*.ln_2.", second_norm},
                                      {"ln_f.", last_norm},
                                      {.theirs = "h.*.attn.c_attn.", .ours = qkv_proj, .transposed = true},
                                      {.theirs = "h.*.attn.c_proj.", .ours = o_proj, .transposed = true},
                                      {.theirs = "h.*.mlp.c_fc.", .ours = up_proj, .transposed = true},
                                      {.theirs = "h.*.mlp.c_proj.", .ours = down_proj, .transposed = true}},
                             .heads = {{"lm_head.", head}},
                             .ignored = {"h.*.attn.bias", "h.*.attn.masked_bias"}};

const TensorNames gpt_neox_names{.base = "gpt_neox.",
                                 .body = {{"embed_in.", words},
                                          {"layers.*.input_layernorm.", first_norm},
                                          {"layers.*.post_attention_layernorm.", second_norm},
                                          {"layers.*.attention.query_key_value.", qkv_proj},
                                          {"layers.*.attention.dense.", o_proj},
                                          {"layers.*.mlp.dense_h_to_4h.", up_proj},
                                          {"layers.*.mlp.dense_4h_to_h.", down_proj},
                                          {"final_layer_norm.", last_norm}},
                                 .heads = {{"embed_out.", head}, {"lm_head.", head}},
                                 .ignored = {"layers.*.attention.bias", "layers.*.attention.masked_bias",
                                             "layers.*.attention.rotary_emb.inv_freq", "rotary_emb.inv_freq"}};

const TensorNames bloom_names{.base = "transformer.",
                              .body = bloom_rules("h.*.input_layernorm.", "h.*.post_attention_layernorm."),
                              .heads = {{"lm_head.", head}}};

const TensorNames falcon_names{.base = "transformer.",
                               .body = bloom_rules("h.*.input_layernorm.", "h.*.post_attention_layernorm."),
                               .heads = {{"lm_head.", head}},
                               .ignored = {"h.*.self_attention.rotary_emb.inv_freq", "rotary_emb.inv_freq"}};

const TensorNames falcon_two_norms_names{
    .base = "transformer.", .body = bloom_rules("h.*.ln_attn.", "h.*.ln_mlp."), .heads = {{"lm_head.", head}}};

const TensorNames chatglm_names{.base = "transformer.",
                                .body = {{"embedding.word_embeddings.", words},
                                         {"encoder.layers.*.input_layernorm.", first_norm},
                                         {"encoder.layers.*.post_attention_layernorm.", second_norm},
                                         {"encoder.layers.*.self_attention.query_key_value.", qkv_proj},
                                         {"encoder.layers.*.self_attention.dense.", o_proj},
                                         {"encoder.layers.*.mlp.dense_h_to_4h.", gate_up_proj},
                                         {"encoder.layers.*.mlp.dense_4h_to_h.", down_proj},
                                         {"encoder.final_layernorm.", last_norm},
                                         {"output_layer.", head}},
                                .ignored = {"rotary_pos_emb.inv_freq"}};

}  // namespace lacuna
