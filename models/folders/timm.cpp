#include "models/folders/timm.h"

#include "models/image_model.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace lacuna {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

Registry<TimmForm>& timm_forms() {
  static Registry<TimmForm> forms("form of timm");
  return forms;
}

namespace {

std::string family_of(const std::string& model) {
  return model_families().contains(model) ? model : model_presets().get(model).family;
}

const TimmForm& form_of(const std::string& model) {
  static const TimmForm none;
  const std::string family = family_of(model);
  return timm_forms().contains(family) ? timm_forms().get(family) : none;
}

std::string without_tag(const std::string& name) { return name.substr(0, name.find('.')); }

bool contains(const std::vector<std::string_view>& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

/// A list of names, or an object from number to name.
std::vector<std::string> labels_in(const ConfigReader& config, const char* key) {
  const ordered_json& json = config.json().at(key);
  if (!json.is_array() && !json.is_object()) config.refuse(key, "a list of texts, or texts by number");
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string number = std::to_string(i);
    if (json.is_object() && !json.contains(number)) return {};  // numbers with gaps
    const ordered_json& label = json.is_object() ? json.at(number) : json.at(i);
    if (!label.is_string()) config.refuse(key, "a list of texts, or texts by number");
    labels.push_back(label.get<std::string>());
  }
  return labels;
}

/// A size that timm writes as two alike, as one.
Tree side_of_square(std::string_view key, const Tree& value) {
  const bool is_size = key == "image_size" || key == "patch_size" || key == "window_size";
  return is_size && value.items.size() == 2 && value.items[0] == value.items[1] ? value.items[0] : value;
}

void read_arguments(const ordered_json& arguments, const TimmForm& form, ModelFolder& folder) {
  for (const auto& [key, value] : arguments.items()) {
    if (key == "num_classes" || contains(form.of_theirs, key)) continue;
    if (key == "global_pool" && !form.pool.empty()) {
      if (value != form.pool)
        reject("{}: expected `model_args.global_pool` to be {}, got {}", folder.config.string(), form.pool,
               value.dump());
      continue;
    }
    const auto keyword = std::ranges::find(form.keywords, key, &TimmForm::Keyword::theirs);
    const std::string ours = keyword == form.keywords.end() ? key : std::string(keyword->ours);
    if (value.is_null()) {
      if (ours.starts_with("init_value") || ours.starts_with("ls_init")) folder.hyper_parameters.push_back({ours, 0.0});
      continue;
    }
    const std::optional<Tree> known = hyper_value(value);
    if (!known)
      reject("{}: expected `model_args.{}` to be a value or a list of whole numbers, got {}", folder.config.string(),
             key, value.dump());
    folder.hyper_parameters.push_back({ours, keyword == form.keywords.end() ? *known : side_of_square(ours, *known)});
  }
}

void read_input_size(const ConfigReader& config, ModelFolder& folder) {
  const std::vector<std::int64_t> size = config.integers("input_size", {});  // channels, height, width
  if (size.empty()) return;
  if (size.size() != 3) config.refuse("input_size", "channels, height and width");
  const auto add = [&](const char* key, Tree value) {
    if (std::ranges::find(folder.hyper_parameters, key, &HyperParameter::key) == folder.hyper_parameters.end())
      folder.hyper_parameters.push_back({key, std::move(value)});
  };
  add("in_channels", size[0]);
  add("image_size", size[1] == size[2] ? Tree(size[1]) : Tree(std::vector{size[1], size[2]}));
}

}  // namespace

bool is_timm_config(const ordered_json& json) { return json.contains("architecture"); }

ModelFolder read_timm_config(const ordered_json& json, const fs::path& file) {
  const ConfigReader top(json, file);
  ModelFolder folder{.config = file};
  folder.model = without_tag(top.text("architecture", ""));
  if (!model_presets().contains(folder.model) && !model_families().contains(folder.model)) {
    std::vector<std::string> known = model_names();
    const std::string near = nearest_name(folder.model, known);
    reject("{}: the architecture {} is none of Lacuna's; {}", file.string(), folder.model,
           near.empty() ? "`lacuna models` lists them" : fmt::format("the nearest is {}", near));
  }
  const ordered_json empty = ordered_json::object();
  const auto object_at = [&](const char* key, const ordered_json& otherwise) -> const ordered_json& {
    if (!top.says(key)) return otherwise;
    if (!json.at(key).is_object()) top.refuse(key, "keys with values");
    return json.at(key);
  };
  const ConfigReader cfg(object_at("pretrained_cfg", json), file);  // older files have it at the top
  read_arguments(object_at("model_args", empty), form_of(folder.model), folder);
  read_input_size(cfg, folder);
  const std::int64_t classes = top.integer("num_classes", cfg.integer("num_classes", 0));
  if (classes > 0) folder.hyper_parameters.push_back({"num_classes", classes});
  for (const ConfigReader* const config : {&top, &cfg})
    for (const char* const key : {"label_names", "labels"})
      if (folder.labels.empty() && config->says(key)) folder.labels = labels_in(*config, key);
  folder.images = {.mean = cfg.numbers("mean"),
                   .std = cfg.numbers("std"),
                   .interpolation = cfg.text("interpolation", ""),
                   .crop_pct = cfg.real("crop_pct", 0),
                   .crop_mode = cfg.text("crop_mode", "")};
  folder.label_offset = cfg.integer("label_offset", 0);
  folder.problem = top.text("problem_type", "");  // Lacuna's own key, which timm ignores
  return folder;
}

namespace {

/// An architecture of timm with arguments.
struct TimmModel {
  std::string architecture{};
  ordered_json arguments = ordered_json::object();
  std::string refusal{};  // why timm has no such model
};

std::string_view keyword_of(const TimmForm& form, std::string_view key) {
  const auto found = std::ranges::find(form.keywords, key, &TimmForm::Keyword::ours);
  return found == form.keywords.end() ? std::string_view() : found->theirs;
}

TimmModel as_arguments_of(const std::string& base, const ModelDescription& description, const TimmForm& form) {
  TimmModel model{.architecture = base};
  const std::vector<HyperParameter> defaults = describe_model(base, {}).hyper_parameters;
  for (const auto& [key, value] : description.hyper_parameters) {
    const Tree* const usual = find_value(defaults, key);
    if (key == "num_classes" || contains(form.of_ours, key) || (usual != nullptr && value == *usual)) continue;
    const std::string_view keyword = keyword_of(form, key);
    if (keyword.empty() && key == "image_size") continue;  // any size; `input_size` tells it
    if (keyword.empty())
      model.refusal = fmt::format("its {} is {}, and that of timm's {} is {}", key, to_yaml(value), base,
                                  usual == nullptr ? "none" : to_yaml(*usual));
    const bool none = key.starts_with("ls_init") && value == Tree(0);
    model.arguments[std::string(keyword)] = none ? ordered_json(nullptr) : to_json(value);
  }
  if (model.refusal.empty() && form.refusal != nullptr) model.refusal = form.refusal(description.options);
  return model;
}

TimmModel timm_model(const ModelFolder& description) {
  const std::string name = without_tag(description.model);
  const TimmForm& form = form_of(name);
  const ModelDescription described = describe_model(name, description.hyper_parameters);
  std::vector<std::string> bases(form.bases.begin(), form.bases.end());
  if (!form.keywords.empty() && model_presets().contains(name) && !contains(form.own, name))
    bases.insert(bases.begin(), name);
  TimmModel first{.refusal = fmt::format("timm has no {}", name)};
  for (const std::string& base : bases) {
    TimmModel model = as_arguments_of(base, described, form);
    if (model.refusal.empty()) return model;
    if (&base == &bases.front()) first.refusal = model.refusal;
  }
  first.architecture = name;  // under our names, for Lacuna alone
  const std::vector<HyperParameter> defaults = describe_model(name, {}).hyper_parameters;
  for (const auto& [key, value] : described.hyper_parameters)
    if (const Tree* const usual = find_value(defaults, key);
        key != "num_classes" && (usual == nullptr || value != *usual))
      first.arguments[key] = to_json(value);
  return first;
}

}  // namespace

std::string timm_refusal(const ModelFolder& description) { return timm_model(description).refusal; }

ordered_json timm_config(const Model& model, const ModelFolder& description) {
  const TimmModel timm = timm_model(description);
  ordered_json json{{"architecture", timm.architecture}, {"num_classes", model.num_classes()}};
  for (const Parameter* const parameter : model.parameters())
    if (!model.heads().empty() && parameter->path() == model.heads().front() + ".weight")
      json["num_features"] = parameter->shape().back();
  if (!timm.arguments.empty()) json["model_args"] = timm.arguments;
  if (std::ssize(description.labels) == model.num_classes()) json["label_names"] = description.labels;
  if (description.problem == "multi_label_classification" || description.problem == "regression")
    json["problem_type"] = description.problem;
  ordered_json& cfg = json["pretrained_cfg"] = {{"num_classes", model.num_classes()}};
  if (const auto* const images = dynamic_cast<const ImageModel*>(&model)) {
    const auto [height, width] = images->image_size();
    cfg["input_size"] = {images->in_channels(), height, width};
    cfg["fixed_input_size"] = !keyword_of(form_of(without_tag(description.model)), "image_size").empty();
    const ImagePreparation& as = description.images;
    if (!as.interpolation.empty()) cfg["interpolation"] = as.interpolation;
    if (as.crop_pct > 0) cfg["crop_pct"] = as.crop_pct;
    if (!as.crop_mode.empty()) cfg["crop_mode"] = as.crop_mode;
    if (!as.mean.empty()) cfg["mean"] = as.mean;
    if (!as.std.empty()) cfg["std"] = as.std;
    // timm would adapt the convolution to other channels a second time.
    if (images->in_channels() == 3) cfg["first_conv"] = images->first_convolution();
  }
  if (model.heads().size() == 1)
    cfg["classifier"] = model.heads().front();
  else if (!model.heads().empty())
    cfg["classifier"] = model.heads();
  return json;
}

}  // namespace lacuna
