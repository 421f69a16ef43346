// ModernBERT in transformers' convention: config.json of versions 4 and 5, written in the words of 4, which both read.
// Its tensors have transformers' names here too: the table is for files without the base's name.
#include "models/folders/text_types.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lacuna {
namespace {

constexpr auto integers = {"vocab_size",        "hidden_size",  "num_hidden_layers",       "num_attention_heads",
                           "intermediate_size", "pad_token_id", "max_position_embeddings", "local_attention"};
constexpr auto reals = {"norm_eps",           "attention_dropout", "embedding_dropout",        "mlp_dropout",
                        "classifier_dropout", "initializer_range", "initializer_cutoff_factor"};
constexpr auto flags = {"norm_bias", "attention_bias", "mlp_bias", "classifier_bias"};
constexpr auto words = {"hidden_activation", "classifier_pooling", "classifier_activation"};
constexpr const char *every = "global_attn_every_n_layers", *layer_types = "layer_types",
                     *rope_parameters = "rope_parameters";
constexpr std::pair<const char*, const char*> thetas[] = {{"full_attention", "global_rope_theta"},
                                                          {"sliding_attention", "local_rope_theta"}};

/// Version 5 names the type of each layer, version 4 a number.
std::int64_t layers_from_one_global_to_the_next(const ConfigReader& config) {
  const std::vector<std::string> types = config.texts(layer_types);
  if (types.empty()) return config.integer(every, 3);
  const auto count = std::ssize(types);
  if (count != config.integer("num_hidden_layers", 22))
    config.refuse(layer_types, fmt::format("of {} layers", config.integer("num_hidden_layers", 22)));
  std::int64_t step = 1;
  while (step < count && types[static_cast<std::size_t>(step)] != "full_attention") ++step;
  for (std::int64_t i = 0; i < count; ++i)
    if (types[static_cast<std::size_t>(i)] != (i % step == 0 ? "full_attention" : "sliding_attention"))
      config.refuse(layer_types, "full_attention in the first layer and every n-th from there, sliding_attention else");
  return step;
}

std::vector<HyperParameter> read_modernbert(const ConfigReader& config) {
  for (const char* const key : {"is_decoder", "add_cross_attention"})
    if (config.flag(key, false)) config.refuse(key, "false");
  if (!config.flag("decoder_bias", true)) config.refuse("decoder_bias", "true");
  if (config.says("rope_scaling")) config.refuse("rope_scaling", "absent");
  std::vector<HyperParameter> values{{every, layers_from_one_global_to_the_next(config)}};
  for (const char* const key : integers)
    if (config.says(key)) values.push_back({key, config.integer(key, 0)});
  for (const char* const key : reals)
    if (config.says(key)) values.push_back({key, config.real(key, 0)});
  for (const char* const key : flags)
    if (config.says(key)) values.push_back({key, config.flag(key, false)});
  for (const char* const key : words)
    if (config.says(key)) values.push_back({key, config.text(key, "")});
  const nlohmann::ordered_json none = nlohmann::ordered_json::object();
  const nlohmann::ordered_json& parameters = config.says(rope_parameters) ? config.json().at(rope_parameters) : none;
  if (!parameters.is_object()) config.refuse(rope_parameters, "an object");
  for (const auto& [kind, key] : thetas) {
    if (config.says(key)) values.push_back({key, config.real(key, 0)});
    if (!parameters.contains(kind)) continue;
    const ConfigReader of_kind(parameters.at(kind), config.file());
    if (of_kind.text("rope_type", "default") != "default") of_kind.refuse("rope_type", "default");
    if (of_kind.says("rope_theta")) {
      std::erase_if(values, [&, named = key](const HyperParameter& one) { return one.key == named; });
      values.push_back({key, of_kind.real("rope_theta", 0)});
    }
  }
  if (std::string head = head_of(config); !head.empty()) values.push_back({"head", std::move(head)});
  return values;
}

std::string write_modernbert(const Options& options, nlohmann::ordered_json& config) {
  for (const auto& keys : {integers, reals, flags, words}) write_values(options, keys, config);
  write_values(options, {every, "global_rope_theta", "local_rope_theta"}, config);
  for (const char* const key : reals) config[key] = config[key].get<double>();  // version 5 takes no whole numbers here
  return {};
}

const RegisterTransformersType modernbert(
    "modernbert", {.family = "modernbert",
                   .architecture = "ModernBertForSequenceClassification",
                   .names = {.base = "model.",
                             .body = own_names("model.",
                                               {"embeddings.tok_embeddings.", "embeddings.norm.", "layers.*.attn_norm.",
                                                "layers.*.attn.Wqkv.", "layers.*.attn.Wo.", "layers.*.mlp_norm.",
                                                "layers.*.mlp.Wi.", "layers.*.mlp.Wo.", "final_norm."},
                                               {}),
                             .heads = own_names("", {"head.dense.", "head.norm.", "classifier.", "decoder.bias"}, {}),
                             .ignored_heads = {"decoder.weight"}},
                   .read = read_modernbert,
                   .write = write_modernbert,
                   .class_of = [](const Options& options) { return class_name("ModernBert", options); }});

}  // namespace
}  // namespace lacuna
