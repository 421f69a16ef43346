// Presets of decoders, by what their config.json says of them.
#include "models/folders/decoder/config.h"
#include "models/registry.h"

#include <nlohmann/json.hpp>

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;

struct RegisterDecoderPreset {
  RegisterDecoderPreset(std::string_view name, DecoderOptions (*read)(const ConfigReader&), const Json& config) {
    model_presets().add(name, {"decoder", values_of(read(ConfigReader(config, std::string(name))))});
  }
};

Json sizes(std::int64_t vocabulary, std::int64_t width, std::int64_t hidden, std::int64_t layers, std::int64_t heads,
           std::int64_t kv_heads, std::int64_t positions, const Json& more = Json::object()) {
  Json config{{"vocab_size", vocabulary},
              {"hidden_size", width},
              {"intermediate_size", hidden},
              {"num_hidden_layers", layers},
              {"num_attention_heads", heads},
              {"num_key_value_heads", kv_heads},
              {"max_position_embeddings", positions}};
  config.update(more);
  return config;
}

Json llama2(std::int64_t width, std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
  return sizes(32000, width, hidden, layers, heads, heads, 4096, {{"rms_norm_eps", 1e-5}});
}
Json llama3(std::int64_t width, std::int64_t hidden, std::int64_t layers, std::int64_t heads, double factor) {
  const Json scaling{{"rope_type", "llama3"},
                     {"factor", factor},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 8192}};
  return sizes(
      128256, width, hidden, layers, heads, 8, 131072,
      {{"rms_norm_eps", 1e-5}, {"rope_theta", 5e5}, {"rope_scaling", scaling}, {"tie_word_embeddings", factor > 8}});
}
Json smollm2(std::int64_t width, std::int64_t hidden, std::int64_t layers, std::int64_t heads, std::int64_t kv_heads,
             double theta) {
  return sizes(49152, width, hidden, layers, heads, kv_heads, 8192,
               {{"rms_norm_eps", 1e-5}, {"rope_theta", theta}, {"tie_word_embeddings", true}});
}
Json qwen(std::int64_t width, std::int64_t hidden, std::int64_t layers, std::int64_t heads, std::int64_t kv_heads,
          bool tied, std::int64_t vocabulary = 151936) {
  return sizes(vocabulary, width, hidden, layers, heads, kv_heads, 32768,
               {{"rms_norm_eps", 1e-6}, {"rope_theta", 1e6}, {"tie_word_embeddings", tied}});
}
Json gemma(std::int64_t vocabulary, std::int64_t width, std::int64_t hidden, std::int64_t layers, std::int64_t heads,
           std::int64_t kv_heads, std::int64_t positions, std::int64_t window = 4096) {
  return sizes(vocabulary, width, hidden, layers, heads, kv_heads, positions, {{"sliding_window", window}});
}
Json gpt2(std::int64_t width, std::int64_t layers, std::int64_t heads) {
  return {{"n_embd", width}, {"n_layer", layers}, {"n_head", heads}};
}
Json pythia(std::int64_t width, std::int64_t layers, std::int64_t heads) {
  Json config = sizes(50304, width, 4 * width, layers, heads, heads, 2048);
  config["layer_norm_eps"] = 1e-5;
  return config;
}
Json bloom(std::int64_t width, std::int64_t layers, std::int64_t heads) {
  return {{"vocab_size", 250880}, {"hidden_size", width}, {"n_layer", layers}, {"n_head", heads}};
}
Json mistral(std::int64_t vocabulary, const Json& window, double theta) {
  return sizes(vocabulary, 4096, 14336, 32, 32, 8, 32768,
               {{"rms_norm_eps", 1e-5}, {"sliding_window", window}, {"rope_theta", theta}});
}
Json olmo2(std::int64_t width, std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
  return sizes(100352, width, hidden, layers, heads, heads, 4096, {{"rms_norm_eps", 1e-6}, {"rope_theta", 5e5}});
}

const RegisterDecoderPreset presets[] = {
    {"tinyllama-1.1b", read_llama, sizes(32000, 2048, 5632, 22, 32, 4, 2048, {{"rms_norm_eps", 1e-5}})},
    {"llama-2-7b", read_llama, llama2(4096, 11008, 32, 32)},
    {"llama-2-13b", read_llama, llama2(5120, 13824, 40, 40)},
    {"vicuna-7b", read_llama, llama2(4096, 11008, 32, 32)},
    {"vicuna-13b", read_llama, llama2(5120, 13824, 40, 40)},
    {"llama-3.1-8b", read_llama, llama3(4096, 14336, 32, 32, 8)},
    {"llama-3.2-1b", read_llama, llama3(2048, 8192, 16, 32, 32)},
    {"llama-3.2-3b", read_llama, llama3(3072, 8192, 28, 24, 32)},
    {"smollm2-135m", read_llama, smollm2(576, 1536, 30, 9, 3, 1e5)},
    {"smollm2-360m", read_llama, smollm2(960, 2560, 32, 15, 5, 1e5)},
    {"smollm2-1.7b", read_llama, smollm2(2048, 8192, 24, 32, 32, 1.3e5)},
    {"smollm3-3b", read_smollm3, sizes(128256, 2048, 11008, 36, 16, 4, 65536, {{"rope_theta", 5e6}})},
    {"mistral-7b-v0.1", read_mistral, mistral(32000, 4096, 1e4)},
    {"mistral-7b-v0.3", read_mistral, mistral(32768, nullptr, 1e6)},
    {"qwen1.5-0.5b", read_qwen2, qwen(1024, 2816, 24, 16, 16, true)},
    {"qwen1.5-1.8b", read_qwen2, qwen(2048, 5504, 24, 16, 16, false)},
    {"qwen2.5-0.5b", read_qwen2, qwen(896, 4864, 24, 14, 2, true)},
    {"qwen2.5-1.5b", read_qwen2, qwen(1536, 8960, 28, 12, 2, true)},
    {"qwen2.5-3b", read_qwen2, qwen(2048, 11008, 36, 16, 2, true)},
    {"qwen2.5-7b", read_qwen2, qwen(3584, 18944, 28, 28, 4, false, 152064)},
    {"qwen3-0.6b", read_qwen3, qwen(1024, 3072, 28, 16, 8, true)},
    {"qwen3-1.7b", read_qwen3, qwen(2048, 6144, 28, 16, 8, true)},
    {"qwen3-4b", read_qwen3, qwen(2560, 9728, 36, 32, 8, true)},
    {"qwen3-8b", read_qwen3, qwen(4096, 12288, 36, 32, 8, false)},
    {"gemma-2b", read_gemma, gemma(256000, 2048, 16384, 18, 8, 1, 8192)},
    {"gemma-7b", read_gemma, gemma(256000, 3072, 24576, 28, 16, 16, 8192)},
    {"gemma-2-2b", read_gemma2, gemma(256000, 2304, 9216, 26, 8, 4, 8192)},
    {"gemma-2-9b", read_gemma2, gemma(256000, 3584, 14336, 42, 16, 8, 8192)},
    {"gemma-3-270m", read_gemma3, gemma(262144, 640, 2048, 18, 4, 1, 32768, 512)},
    {"gemma-3-1b", read_gemma3, gemma(262144, 1152, 6912, 26, 4, 1, 32768, 512)},
    {"phi-1.5", read_phi, sizes(51200, 2048, 8192, 24, 32, 32, 2048)},
    {"phi-2", read_phi, sizes(51200, 2560, 10240, 32, 32, 32, 2048, {{"partial_rotary_factor", 0.4}})},
    {"phi-3-mini", read_phi3, sizes(32064, 3072, 8192, 32, 32, 32, 4096, {{"sliding_window", 2047}})},
    {"phi-4-mini", read_phi3,
     sizes(200064, 3072, 8192, 32, 24, 8, 4096, {{"partial_rotary_factor", 0.75}, {"tie_word_embeddings", true}})},
    {"gpt2", read_gpt2, gpt2(768, 12, 12)},
    {"gpt2-medium", read_gpt2, gpt2(1024, 24, 16)},
    {"gpt2-large", read_gpt2, gpt2(1280, 36, 20)},
    {"gpt2-xl", read_gpt2, gpt2(1600, 48, 25)},
    {"pythia-70m", read_gpt_neox, pythia(512, 6, 8)},
    {"pythia-160m", read_gpt_neox, pythia(768, 12, 12)},
    {"pythia-410m", read_gpt_neox, pythia(1024, 24, 16)},
    {"pythia-1.4b", read_gpt_neox, pythia(2048, 24, 16)},
    {"bloom-560m", read_bloom, bloom(1024, 24, 16)},
    {"bloom-3b", read_bloom, bloom(2560, 30, 32)},
    {"bloom-7b1", read_bloom, bloom(4096, 30, 32)},
    {"falcon-7b",
     read_falcon,
     {{"vocab_size", 65024}, {"hidden_size", 4544}, {"num_hidden_layers", 32}, {"num_attention_heads", 71}}},
    {"chatglm3-6b",
     read_chatglm,
     {{"padded_vocab_size", 65024},
      {"hidden_size", 4096},
      {"ffn_hidden_size", 13696},
      {"num_layers", 28},
      {"num_attention_heads", 32},
      {"kv_channels", 128},
      {"multi_query_group_num", 2},
      {"seq_length", 8192}}},
    {"olmo2-1b", read_olmo2, olmo2(2048, 8192, 16, 16)},
    {"olmo2-7b", read_olmo2, olmo2(4096, 11008, 32, 32)},
};

}  // namespace
}  // namespace lacuna
