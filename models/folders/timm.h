// timm's convention: `architecture` and its arguments.
#pragma once

#include "models/folders/folder.h"
#include "models/folders/values.h"

namespace lacuna {

/// How timm says what a family's hyper-parameters say.
struct TimmForm {
  struct Keyword {
    std::string_view ours, theirs;
  };
  std::vector<Keyword> keywords;              // of the arguments that every architecture takes
  std::vector<std::string_view> bases{};      // presets that, with arguments, are any model of the family
  std::vector<std::string_view> own{};        // presets that timm lacks
  std::vector<std::string_view> of_ours{};    // hyper-parameters without an effect on outputs
  std::vector<std::string_view> of_theirs{};  // arguments of timm without an effect here
  std::string_view pool{};                    // the one `global_pool` that the family has; empty: it is a keyword
  std::string (*refusal)(const Options& options) = nullptr;  // why timm lacks such a model; empty: it may have it
};
Registry<TimmForm>& timm_forms();
struct RegisterTimmForm {
  RegisterTimmForm(std::string_view family, TimmForm form) { timm_forms().add(family, std::move(form)); }
};

/// Whether a config.json is in timm's convention.
bool is_timm_config(const nlohmann::ordered_json& json);
ModelFolder read_timm_config(const nlohmann::ordered_json& json, const std::filesystem::path& file);
/// A model that timm has none of keeps our names.
nlohmann::ordered_json timm_config(const Model& model, const ModelFolder& description);

}  // namespace lacuna
