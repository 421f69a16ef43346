// Decoders' config.json: transformers' versions 4 and 5, and ChatGLM's own.
#pragma once

#include "models/decoder/options.h"
#include "models/folders/values.h"

#include <nlohmann/json_fwd.hpp>

namespace lacuna {

/// The options that the config.json of each type says; what Lacuna does not compute is refused by its key.
DecoderOptions read_llama(const ConfigReader& c);
DecoderOptions read_mistral(const ConfigReader& c);
DecoderOptions read_qwen2(const ConfigReader& c);
DecoderOptions read_qwen3(const ConfigReader& c);
DecoderOptions read_gemma2(const ConfigReader& c);
DecoderOptions read_gemma3(const ConfigReader& c);
DecoderOptions read_phi(const ConfigReader& c);
DecoderOptions read_phi3(const ConfigReader& c);
DecoderOptions read_gpt2(const ConfigReader& c);
DecoderOptions read_gpt_neox(const ConfigReader& c);
DecoderOptions read_bloom(const ConfigReader& c);
DecoderOptions read_falcon(const ConfigReader& c);
DecoderOptions read_smollm3(const ConfigReader& c);
DecoderOptions read_olmo2(const ConfigReader& c);
DecoderOptions read_chatglm(const ConfigReader& c);
DecoderOptions read_gemma(const ConfigReader& c);

/// The hyper-parameters that differ from the defaults of the family.
std::vector<HyperParameter> values_of(const DecoderOptions& options);

/// The config.json of a model, in the words of version 4. Options that the type does not have are not said.
nlohmann::ordered_json written_llama(const DecoderOptions& o);
nlohmann::ordered_json written_mistral(const DecoderOptions& o);
nlohmann::ordered_json written_qwen(const DecoderOptions& o);
nlohmann::ordered_json written_gemma(const DecoderOptions& o);
nlohmann::ordered_json written_phi(const DecoderOptions& o);
nlohmann::ordered_json written_phi3(const DecoderOptions& o);
nlohmann::ordered_json written_gpt2(const DecoderOptions& o);
nlohmann::ordered_json written_gpt_neox(const DecoderOptions& o);
nlohmann::ordered_json written_bloom(const DecoderOptions& o);
nlohmann::ordered_json written_falcon(const DecoderOptions& o);
nlohmann::ordered_json written_smollm3(const DecoderOptions& o);
nlohmann::ordered_json written_olmo2(const DecoderOptions& o);
nlohmann::ordered_json written_chatglm(const DecoderOptions& o);

}  // namespace lacuna
