#include "models/io/adapter_folder.h"

#include "core/file.h"
#include "models/io/json_fields.h"
#include "models/io/weights.h"
#include "models/language_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace lacuna {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::string_view prefix = "base_model.model.", base_layer = ".base_layer";

/// The model's name of a stored tensor; PEFT calls a layer below an adapter `base_layer`.
std::string own_name(std::string_view stored) {
  if (stored.starts_with(prefix)) stored.remove_prefix(prefix.size());
  const std::size_t at = stored.find(std::string(base_layer) + ".");
  if (at == std::string_view::npos) return std::string(stored);
  return fmt::format("{}{}", stored.substr(0, at), stored.substr(at + base_layer.size()));
}

/// Flags, numbers and texts of the configuration.
OptionValues fields_of(const ordered_json& json) {
  OptionValues fields;
  for (const auto& [name, value] : json.items()) {
    if (value.is_boolean()) fields.emplace(name, value.get<bool>());
    if (value.is_number()) fields.emplace(name, value.get<double>());
    if (value.is_string()) fields.emplace(name, value.get<std::string>());
  }
  return fields;
}

ordered_json to_json(const Tree& value) {
  return value.quoted ? ordered_json(value.text) : ordered_json::parse(value.text);
}

/// The first kind, by name, that is written as `type`.
std::string kind_of(const std::string& type, std::string_view origin) {
  std::set<std::string_view> known;
  for (const std::string& name : nn::adapters().names()) {
    if (nn::adapters().get(name).peft_type == type) return name;
    known.insert(nn::adapters().get(name).peft_type);
  }
  reject("{}: expected an adapter of type {}, got {}", origin, fmt::join(known, " or "), type);
}

/// Refuses keys that say something which is not computed here.
void refuse_unknown(const ordered_json& json, const std::vector<std::string_view>& known, std::string_view origin) {
  constexpr std::string_view of_all[] = {"peft_type",      "task_type", "base_model_name_or_path",
                                         "inference_mode", "revision",  "auto_mapping",
                                         "peft_version"};
  for (const auto& [key, value] : json.items()) {
    const bool says_nothing = value.empty() || value == false || value == "";
    if (!says_nothing && std::ranges::find(known, key) == known.end() && std::ranges::find(of_all, key) == end(of_all))
      reject("{}: expected no `{}`, which is not computed here, got {}", origin, key, value.dump());
  }
}

/// The place that the tensor `name` of an adapter belongs to; null: none.
const AdapterPlace* place_of(const std::vector<AdapterPlace>& places, std::string_view name) {
  const AdapterPlace* found = nullptr;  // a part stands behind its layer
  for (const AdapterPlace& place : places)
    if (belongs_to(name, place.path)) found = &place;
  return found;
}

/// `name`, of an adapter for part `part` of a layer, with the name of the part.
std::string name_of_part(const std::vector<AdapterPlace>& places, const std::string& name, std::int64_t part) {
  for (const AdapterPlace& place : places)
    if (place.part == static_cast<std::size_t>(part) && belongs_to(name, place.layer->path()))
      return place.path + name.substr(place.layer->path().size());
  return name;
}

/// `tensor`, which is `name` here, under the names of another library.
std::vector<NamedTensor> renamed(const std::vector<AdapterPlace>& places, const std::string& name, const Tensor& tensor,
                                 const TensorNames& names) {
  const auto part_of = [&](const TensorNames::Place& theirs) {
    const std::int64_t rows = tensor.shape().front() / theirs.parts;
    return theirs.parts == 1 ? tensor : tensor.leading(theirs.part * rows, (theirs.part + 1) * rows);
  };
  std::vector<NamedTensor> stored;
  const std::size_t adapter = name.rfind(".lora_");
  if (adapter == std::string::npos) {
    for (const TensorNames::Place& theirs : names.every_name(name)) stored.emplace_back(theirs.name, part_of(theirs));
  } else {
    const AdapterPlace& place = *place_of(places, name);
    const std::string end = name.substr(adapter), weight = ".weight";
    for (const TensorNames::Place& theirs : names.every_name(place.layer->weight().path())) {
      if (place.part && *place.part != static_cast<std::size_t>(theirs.part)) continue;
      // Parts of a layer with one A have it in common.
      const bool whole = place.part || end.starts_with(".lora_A.");
      stored.emplace_back(theirs.name.substr(0, theirs.name.size() - weight.size()) + end,
                          whole ? tensor : part_of(theirs));
    }
  }
  if (stored.empty()) reject("{} has no name in the other library", name);
  return stored;
}

/// The layer of a tensor of an adapter.
std::string layer_of(const std::string& name) { return name.substr(0, name.rfind(".lora_")); }

bool in_head(const Model& model, std::string_view name) {
  return std::ranges::any_of(model.heads(), [&](const std::string& head) { return belongs_to(name, head); });
}

LanguageModel::TiedHead tied_head_of(const Model& model) {
  const auto* const language_model = dynamic_cast<const LanguageModel*>(&model);
  return language_model == nullptr ? LanguageModel::TiedHead{} : language_model->tied_head();
}

std::set<std::string, std::less<>> adapter_names(const Model& model) {
  std::set<std::string, std::less<>> names;
  for (const nn::Adaptable* const layer : adapted_layers(model))
    for (const Parameter* const parameter : layer->adapter()->parameters()) names.insert(parameter->path());
  return names;
}

}  // namespace

bool is_adapter_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / adapter_config_file, ignored);
}

AdapterFolder::AdapterFolder(const fs::path& folder, std::vector<TensorNames> tables)
    : folder_(folder), weights_(folder / adapter_weights_file), tables_(std::move(tables)) {
  const std::optional<ordered_json> config = read_json_object(folder / adapter_config_file);
  if (!config) reject("{} holds no adapter: there is no {}", folder.string(), adapter_config_file);
  const ordered_json& json = *config;
  if (const auto base = json.find("base_model_name_or_path"); base != json.end() && base->is_string())
    base_ = base->get<std::string>();
  if (const auto task = json.find("task_type"); task != json.end() && task->is_string())
    task_type_ = task->get<std::string>();
  kind_ = kind_of(text_in(json, "peft_type", origin()), origin());
  refuse_unknown(json, nn::adapters().get(kind_).peft_keys, origin());
  fields_ = fields_of(json);
  settings_ = nn::adapters().get(kind_).from_peft(fields_, origin());
  read_patterns(json);
}

void AdapterFolder::read_patterns(const ordered_json& json) {
  constexpr std::size_t longest = 1000;
  for (const auto& [key, replaced] : nn::adapters().get(kind_).peft_patterns) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) continue;
    if (!found->is_object()) reject("{}: expected layers with values in `{}`", origin(), key);
    for (const auto& [layers, value] : found->items()) {
      if (!value.is_number()) reject("{}: expected a number for {} in `{}`", origin(), layers, key);
      if (layers.size() > longest)
        reject("{}: expected names of at most {} letters in `{}`, got {}", origin(), longest, key, layers.size());
      try {
        patterns_.push_back(
            {std::regex(fmt::format("(.*\\.)?({})", layers)), std::string(replaced), value.get<double>()});
      } catch (const std::regex_error& error) {
        reject("{}: expected a name or a regular expression in `{}`, got {}: {}", origin(), key, layers, error.what());
      }
    }
  }
}

std::optional<OptionValues> AdapterFolder::settings_of(const std::string& module) const {
  OptionValues fields;
  for (const Pattern& pattern : patterns_)
    if (!fields.contains(pattern.field) && std::regex_match(module, pattern.layers))
      fields.emplace(pattern.field, pattern.value);
  if (fields.empty()) return {};
  fields.insert(fields_.begin(), fields_.end());
  return nn::adapters().get(kind_).from_peft(fields, origin());
}

std::string AdapterFolder::origin() const { return (folder_ / adapter_config_file).string(); }

std::string AdapterFolder::name_in(const Model& model, std::string_view stored) const {
  const std::vector<AdapterPlace> places = adapter_places(model);
  std::set<std::string, std::less<>> known;
  for (const auto& [name, tensor] : state_of(model)) known.insert(name);
  const auto is_ours = [&](std::string_view name) { return known.contains(name) || place_of(places, name) != nullptr; };
  std::string name = own_name(stored);
  if (is_ours(name)) return name;
  for (const TensorNames& table : tables_)
    for (const std::string& theirs : {name, std::string(table.base) + name})  // models without a head lack the base
      if (const auto found = table.ours(theirs)) {
        std::string ours = found->parts == 1 ? found->name : name_of_part(places, found->name, found->part);
        if (is_ours(ours)) return ours;
      }
  return name;
}

AdapterOptions AdapterFolder::options(const Model& model, std::string_view kind) const {
  std::set<std::string, std::less<>> known, targets;
  std::map<std::string, std::optional<OptionValues>> layers;
  const std::vector<AdapterPlace> places = adapter_places(model);
  for (const auto& [name, tensor] : state_of(model)) known.insert(name);
  for (const SafetensorsEntry& entry : weights_.entries()) {
    const std::string name = name_in(model, entry.name);
    if (known.contains(name)) continue;
    const AdapterPlace* const place = place_of(places, name);
    if (place == nullptr) continue;
    targets.insert(place->path);
    const std::string module = layer_of(own_name(entry.name));
    std::optional<OptionValues> own = settings_of(module);
    const auto [before, is_first] = layers.try_emplace(place->path, own);
    if (!is_first && before->second != own)
      reject("{}: expected one rank and alpha for {}, got others for {}", origin(), place->path, module);
  }
  if (targets.empty())
    reject("{}: no tensor belongs to a linear layer or convolution of the model; the first is {}",
           weights_.path().string(), weights_.entries().empty() ? "none" : weights_.entries().front().name);
  const std::string chosen = kind.empty() ? kind_ : std::string(kind);
  if (nn::adapters().get(chosen).peft_type != nn::adapters().get(kind_).peft_type)
    reject("{}: expected an adapter of type {}, got {}", origin(), nn::adapters().get(chosen).peft_type,
           nn::adapters().get(kind_).peft_type);
  AdapterOptions options{
      .kind = chosen, .settings = settings_, .targets = {targets.begin(), targets.end()}, .exact = true};
  for (auto& [path, own] : layers)
    if (own) options.layer_settings.emplace(path, std::move(*own));
  return options;
}

std::int64_t AdapterFolder::head_outputs(const Model& model) const {
  for (const SafetensorsEntry& entry : weights_.entries())
    if (entry.name.ends_with(".weight") && entry.shape.rank() > 1 && in_head(model, name_in(model, entry.name)))
      return entry.shape[0];
  return 0;
}

LoadedAdapter AdapterFolder::check(const Model& model, Head head) const {
  expect(model.adaptation().has_value(), "the model has no adapters");
  std::map<std::string, Tensor, std::less<>> own;
  for (const auto& [name, tensor] : state_of(model)) own.emplace(name, tensor);
  std::set<std::string, std::less<>> missing = adapter_names(model);
  LoadedAdapter loaded;
  std::string differences;
  const auto [head_copy, table] = tied_head_of(model);
  std::string stored_copy, stored_table;
  for (const SafetensorsEntry& entry : weights_.entries()) {
    const std::string name = name_in(model, entry.name);
    const auto found = own.find(name);
    missing.erase(name);
    if (!table.empty() && name == table) stored_table = entry.name;
    if (!table.empty() && name == head_copy) {
      stored_copy = entry.name;
      continue;
    }
    if (found == own.end()) {
      differences += fmt::format("\n  unknown to the model: {} {}", entry.name, entry.shape);
      continue;
    }
    const Tensor& tensor = found->second;
    const bool fits = entry.dtype && is_floating(*entry.dtype) == (is_floating(tensor.dtype()) || tensor.is_coded()) &&
                      entry.shape == tensor.shape();
    if (in_head(model, name) && entry.shape.rank() == 2) loaded.file_classes = entry.shape[0];
    if (head == Head::kept && in_head(model, name))
      loaded.new_head = true;
    else if (fits)
      loaded.names.emplace(name, entry.name);
    else if (head == Head::kept_for_other_shapes && in_head(model, name))
      loaded.new_head = true;
    else
      differences +=
          fmt::format("\n  {}: expected {}, got {} {}", name, tensor.shape(), entry.stored_dtype, entry.shape);
  }
  const bool one_table = !stored_copy.empty() && !stored_table.empty() &&
                         has_same_values(weights_.load(stored_copy), weights_.load(stored_table));
  if (!one_table && !(stored_copy.empty() && stored_table.empty()))  // PEFT has two unless ensure_weight_tying is set
    differences += fmt::format("\n  {} and {} are one table: expected both, with equal values", table, head_copy);
  for (const std::string& name : missing) differences += fmt::format("\n  missing in the file: {}", name);
  if (!differences.empty()) reject("{} does not fit the model:{}", weights_.path().string(), differences);
  if (loaded.new_head) std::erase_if(loaded.names, [&](const auto& one) { return in_head(model, one.first); });
  return loaded;
}

LoadedAdapter AdapterFolder::load(Model& model, Head head) const {
  const LoadedAdapter loaded = check(model, head);
  std::map<std::string, Tensor, std::less<>> own;
  for (const auto& [name, tensor] : state_of(model)) own.emplace(name, tensor);
  const std::set<std::string, std::less<>> adapters = adapter_names(model);
  Adaptation adaptation = *model.adaptation();
  for (const auto& [name, stored] : loaded.names) {
    own.at(name).copy_from(weights_.load(stored));
    if (!adapters.contains(name)) adaptation.replaced.insert(name);
  }
  model.set_adaptation(std::move(adaptation));
  return loaded;
}

void write_adapter(const fs::path& folder, const Model& model, const TensorNames* names, std::string_view task_type) {
  const Adaptation& adaptation = *model.adaptation();
  const nn::AdapterKind& kind = nn::adapters().get(adaptation.kind);
  const std::vector<AdapterPlace> places = adapter_places(model);
  const std::set<std::string, std::less<>> adapters = adapter_names(model);
  const LanguageModel::TiedHead tied = tied_head_of(model);
  const std::vector<NamedTensor> state = adapted_state(model);
  std::set<std::string, std::less<>> targets, saved;  // the latter below the adapters, as PEFT's modules_to_save
  std::map<std::string, std::string, std::less<>> places_of_targets;  // by their name
  std::vector<NamedTensor> stored;
  bool transposed = false;  // whether a layer's weight is [in, out] there
  std::string_view biases = "none";
  const bool has_tied = std::ranges::any_of(state, [&](const auto& one) { return one.first == tied.parameter; });
  const auto theirs_of = [&](const std::string& name, const Tensor& tensor) {
    return names == nullptr ? std::vector{NamedTensor(name, tensor)} : renamed(places, name, tensor, *names);
  };
  for (const auto& [name, tensor] : state) {
    if (!adapters.contains(name)) continue;
    for (const auto& [theirs, part] : theirs_of(name, tensor)) {
      const std::string module = layer_of(theirs);
      if (names != nullptr)
        if (const auto weight = names->ours(module + ".weight")) transposed = transposed || weight->transposed;
      targets.insert(module);
      places_of_targets.emplace(module, place_of(places, name)->path);
      stored.emplace_back(std::string(prefix) + theirs, part);
    }
  }
  std::set<std::string_view> whole;  // modules that are stored as a whole
  for (const auto& [name, tensor] : state)
    if (!adapters.contains(name) && !is_bias(name)) whole.insert(module_of(name));
  if (has_tied) whole.insert(module_of(tied.name));
  const auto save = [&](const std::string& name, const Tensor& tensor) {
    for (const auto& [theirs, part] : theirs_of(name, tensor)) {
      const std::string module = theirs.substr(0, theirs.rfind('.'));
      if (whole.contains(module_of(name))) {
        saved.insert(module);
        stored.emplace_back(std::string(prefix) + theirs, part);
        continue;
      }
      const bool adapted = targets.contains(module);  // in PEFT the bias is then of the layer below
      biases = adapted && biases != "all" ? "lora_only" : "all";
      stored.emplace_back(
          fmt::format("{}{}{}{}", prefix, module, adapted ? base_layer : "", theirs.substr(module.size())), part);
    }
  };
  for (const auto& [name, tensor] : state) {
    if (adapters.contains(name)) continue;
    save(name, tensor);
    if (name == tied.parameter) save(std::string(tied.name), tensor);
  }
  ordered_json json{{"peft_type", kind.peft_type},
                    {"base_model_name_or_path", adaptation.base},
                    {"task_type", task_type.empty() ? ordered_json() : ordered_json(task_type)},
                    {"inference_mode", true},
                    {"bias", biases},
                    {"fan_in_fan_out", transposed},
                    {"target_modules", targets},
                    {"modules_to_save", saved},
                    {"ensure_weight_tying", has_tied}};
  const auto fields = [&](const OptionValues& settings) {
    return kind.to_peft(read_options("adapter " + adaptation.kind, kind.options, settings));
  };
  const OptionValues common = fields(adaptation.settings);
  for (const auto& [name, value] : common) json[name] = to_json(value);
  for (const auto& [module, path] : places_of_targets) {
    const auto found = adaptation.layer_settings.find(path);
    if (found == adaptation.layer_settings.end()) continue;
    const OptionValues own = fields(found->second);
    // A name alone would match the ends of other names as well: conv1 that of layer1.0.conv1.
    for (const auto& [key, field] : kind.peft_patterns)
      if (const Tree& value = own.at(std::string(field)); value != common.at(std::string(field)))
        json[key]["^" + module] = to_json(value);
  }
  write_file_atomically(folder / adapter_config_file, json.dump(2) + "\n");
  write_safetensors(folder / adapter_weights_file, std::move(stored), {{"format", "pt"}});
}

}  // namespace lacuna
