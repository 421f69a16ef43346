// Decoder language models in transformers' convention, and ChatGLM's own.
#include "models/folders/decoder/config.h"
#include "models/folders/decoder/names.h"
#include "models/folders/transformers.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;
using Config = ConfigReader;

struct DecoderType {
  std::string_view model_type, architecture;
  const TensorNames& names;
  DecoderOptions (*read)(const Config&);
  Json (*write)(const DecoderOptions&);  // null: an old name of a type, which is read alone
  std::vector<std::string> adapter_targets{};
};

const std::vector<std::string> q_and_v{"q_proj", "v_proj"}, fused{"qkv_proj"};

/// Registers a type whose config.json is read back before it is written: what it cannot say is refused.
struct RegisterDecoder {
  explicit RegisterDecoder(DecoderType type) {
    TransformersType entry;
    entry.family = "decoder";
    entry.architecture = type.architecture;
    entry.names = type.names;
    entry.read = [read = type.read](const Config& c) { return values_of(read(c)); };
    entry.problem = "causal_lm";
    entry.adapter_targets = type.adapter_targets;
    if (type.write != nullptr)
      entry.write = [type](const Options& options, Json& config) -> std::string {
        const auto& own = options.as<DecoderOptions>();
        if (own.type != type.model_type) return fmt::format("its type is {}", own.type);
        config = type.write(own);
        HyperProblems problems;
        DecoderOptions again = type.read(Config(config, "config.json"));
        again.check(problems);
        for (const Field& field : DecoderOptions::fields())
          if (!(field.write(&again) == field.write(&own)))
            return fmt::format("{} has no {} {}", own.type, field.name, to_yaml(field.write(&own)));
        return {};
      };
    if (type.model_type == "falcon")
      entry.names_of = [](const Options& options) {
        const auto& own = options.as<DecoderOptions>();
        return own.block == DecoderOptions::Block::parallel_two_norms ? &falcon_two_norms_names : &falcon_names;
      };
    transformers_types().add(type.model_type, std::move(entry));
  }
};

const RegisterDecoder decoders[] = {
    RegisterDecoder({"llama", "LlamaForCausalLM", llama_names, read_llama, written_llama, q_and_v}),
    RegisterDecoder({"mistral", "MistralForCausalLM", llama_names, read_mistral, written_mistral, q_and_v}),
    RegisterDecoder({"qwen2", "Qwen2ForCausalLM", llama_names, read_qwen2, written_qwen, q_and_v}),
    RegisterDecoder({"qwen3", "Qwen3ForCausalLM", llama_names, read_qwen3, written_qwen, q_and_v}),
    RegisterDecoder({"gemma", "GemmaForCausalLM", llama_names, read_gemma, written_gemma, q_and_v}),
    RegisterDecoder({"gemma2", "Gemma2ForCausalLM", llama_names, read_gemma2, written_gemma, q_and_v}),
    RegisterDecoder({"gemma3_text", "Gemma3ForCausalLM", llama_names, read_gemma3, written_gemma, q_and_v}),
    RegisterDecoder(
        {"phi", "PhiForCausalLM", phi_names, read_phi, written_phi, {"q_proj", "v_proj", "up_proj", "down_proj"}}),
    RegisterDecoder({"phi3", "Phi3ForCausalLM", llama_names, read_phi3, written_phi3}),
    RegisterDecoder({"gpt2", "GPT2LMHeadModel", gpt2_names, read_gpt2, written_gpt2, fused}),
    RegisterDecoder({"gpt_neox", "GPTNeoXForCausalLM", gpt_neox_names, read_gpt_neox, written_gpt_neox, fused}),
    RegisterDecoder({"bloom", "BloomForCausalLM", bloom_names, read_bloom, written_bloom, fused}),
    RegisterDecoder({"falcon", "FalconForCausalLM", falcon_names, read_falcon, written_falcon, fused}),
    RegisterDecoder({"RefinedWebModel", "FalconForCausalLM", falcon_names, read_falcon, nullptr}),
    RegisterDecoder({"RefinedWeb", "FalconForCausalLM", falcon_names, read_falcon, nullptr}),
    RegisterDecoder({"smollm3", "SmolLM3ForCausalLM", llama_names, read_smollm3, written_smollm3}),
    RegisterDecoder({"olmo2", "Olmo2ForCausalLM", llama_names, read_olmo2, written_olmo2}),
    RegisterDecoder(
        {"chatglm", "ChatGLMForConditionalGeneration", chatglm_names, read_chatglm, written_chatglm, fused}),
};

}  // namespace
}  // namespace lacuna
