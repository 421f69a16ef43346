#include "models/folders/sentence_modules.h"

#include "core/error.h"
#include "models/folders/values.h"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

namespace lacuna {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char *modules_file = "modules.json", *transformer_file = "sentence_bert_config.json",
                     *comparison_file = "config_sentence_transformers.json", *tokenizer_file = "tokenizer_config.json",
                     *usual_pooling = "1_Pooling";
constexpr double most_tokens = 1 << 20;  // transformers writes 1e30 for no limit

/// Adds a reason not to compute embeddings; the first is told.
void refuse(ModelFolder& description, std::string why) { description.refused.try_emplace("embedding", std::move(why)); }

/// `required`: modules.json names the folder.
void read_pooling(const fs::path& folder, bool required, ModelFolder& description) {
  const fs::path file = folder / "config.json";
  const std::optional<ordered_json> json = read_json_object(file);
  if (!json && required)
    refuse(description, fmt::format("{}: expected the file, since {} names its folder", file.string(), modules_file));
  if (!json) return;
  const ConfigReader config(*json, file);
  std::string mode = config.text("pooling_mode", "");  // of later versions
  bool says_flags = false;
  for (const auto& [key, flag] : json->items()) {
    if (!key.starts_with("pooling_mode_")) continue;
    says_flags = true;
    if (flag == true) mode += (mode.empty() ? "" : "+") + key.substr(std::string_view("pooling_mode_").size());
  }
  if (mode.empty() && !says_flags) mode = "mean";
  if (mode == "cls_token" || mode == "cls")
    description.hyper_parameters.push_back({"pooling", std::string("first")});
  else if (mode == "mean_tokens" || mode == "mean")
    description.hyper_parameters.push_back({"pooling", std::string("mean")});
  else
    refuse(description, fmt::format("{}: expected the mean or the first token, got {}", file.string(),
                                    mode.empty() ? "none" : mode));
}

void add_longest(double tokens, ModelFolder& description) {
  const Tree* const positions = find_value(description.hyper_parameters, "max_position_embeddings");
  if (tokens >= 1 && (positions == nullptr || tokens < number_in(*positions).value_or(0)) && tokens < most_tokens)
    description.hyper_parameters.push_back({"max_seq_length", static_cast<std::int64_t>(tokens)});
}

/// sentence_bert_config.json: the longest text in tokens.
void read_transformer(const fs::path& folder, ModelFolder& description) {
  for (const char* const name : {transformer_file, "sentence_distilbert_config.json"})
    if (const std::optional<ordered_json> json = read_json_object(folder / name)) {
      const ConfigReader config(*json, folder / name);
      if (config.flag("do_lower_case", false))
        refuse(description, fmt::format("{}: expected `do_lower_case` false, got true; tokenizer_config.json says it",
                                        config.file().string()));
      return add_longest(static_cast<double>(config.integer("max_seq_length", 0)), description);
    }
}

/// Reads config_sentence_transformers.json, the prompts and the similarity.
void read_comparison(const fs::path& folder, ModelFolder& description) {
  const fs::path file = folder / comparison_file;
  const std::optional<ordered_json> json = read_json_object(file);
  if (!json) return;
  const ConfigReader config(*json, file);
  if (!config.text("default_prompt_name", "").empty())
    refuse(description,
           fmt::format("{}: expected no `default_prompt_name`, a text that is put before each input", file.string()));
  const std::string similarity = config.text("similarity_fn_name", "cosine");
  const bool has_length_one = find_value(description.hyper_parameters, "normalize") != nullptr;
  if (similarity != "cosine" && !(similarity == "dot" && has_length_one))
    refuse(description, fmt::format("{}: expected `similarity_fn_name` cosine, or dot of vectors of length one, got {}",
                                    file.string(), similarity));
}

void read_modules(const fs::path& folder, ModelFolder& description) {
  const fs::path file = folder / modules_file;
  const std::optional<ordered_json> modules = read_json_list(file);
  if (!modules) return read_pooling(folder / usual_pooling, false, description);
  bool pools = false, normalizes = false;
  for (const ordered_json& module : *modules) {
    const ConfigReader config(module, file);
    const std::string type = config.text("type", ""), path = config.text("path", "");
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Transformer" && path.empty()) {
      read_transformer(folder, description);
    } else if (kind == "Pooling" && !pools) {
      read_pooling(folder / path, true, description);
      pools = true;
    } else if (kind == "Normalize" && pools && !normalizes) {
      description.hyper_parameters.push_back({"normalize", true});
      normalizes = true;
    } else {
      refuse(description,
             fmt::format("{}: expected the modules Transformer, Pooling and Normalize, got {}{}", file.string(),
                         kind.empty() ? "none" : kind, path.empty() ? "" : fmt::format(" in {}", path)));
    }
  }
  if (!pools) refuse(description, fmt::format("{}: expected a module Pooling, got none", file.string()));
}

}  // namespace

void read_sentence_modules(const fs::path& folder, ModelFolder& description) {
  read_modules(folder, description);
  read_comparison(folder, description);
  const fs::path tokenizer = folder / tokenizer_file;
  if (const std::optional<ordered_json> json = read_json_object(tokenizer);
      json && find_value(description.hyper_parameters, "max_seq_length") == nullptr)
    add_longest(ConfigReader(*json, tokenizer).real("model_max_length", 0), description);
}

void write_longest(const std::vector<HyperParameter>& values, std::map<std::string, std::string>& texts) {
  const double longest = number_in(*find_value(values, "max_seq_length")).value_or(0),
               positions = number_in(*find_value(values, "max_position_embeddings")).value_or(0);
  const auto there = texts.find(tokenizer_file);
  ordered_json json = there == texts.end() ? ordered_json::object() : ordered_json::parse(there->second);
  const double said = json.value("model_max_length", positions), meant = longest > 0 ? longest : positions;
  if (std::min(said, positions) == std::min(meant, positions)) return;
  json["model_max_length"] = static_cast<std::int64_t>(meant);
  texts[tokenizer_file] = json.dump(2) + "\n";
}

std::map<std::string, std::string> sentence_modules(const std::vector<HyperParameter>& values, std::int64_t width) {
  std::map<std::string, std::string> files;
  const auto add = [&](const std::string& name, const ordered_json& json) { files[name] = json.dump(2) + "\n"; };
  ordered_json modules = ordered_json::array();
  const auto add_module = [&](const char* path, const char* kind) {
    const std::size_t number = modules.size();
    modules.push_back({{"idx", number},
                       {"name", std::to_string(number)},
                       {"path", path},
                       {"type", fmt::format("sentence_transformers.models.{}", kind)}});
  };
  add_module("", "Transformer");
  add_module(usual_pooling, "Pooling");
  if (*find_value(values, "normalize") == Tree(true)) add_module("2_Normalize", "Normalize");
  add(modules_file, modules);
  const bool first = *find_value(values, "pooling") == Tree("first");
  add(fmt::format("{}/config.json", usual_pooling), {{"word_embedding_dimension", width},
                                                     {"pooling_mode_cls_token", first},
                                                     {"pooling_mode_mean_tokens", !first},
                                                     {"pooling_mode_max_tokens", false},
                                                     {"pooling_mode_mean_sqrt_len_tokens", false}});
  if (const Tree& longest = *find_value(values, "max_seq_length"); longest != Tree(0))
    add(transformer_file, {{"max_seq_length", to_json(longest)}, {"do_lower_case", false}});
  return files;
}

}  // namespace lacuna
