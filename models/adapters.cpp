#include "models/adapters.h"

#include "core/glob.h"
#include "models/io/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace lacuna {
namespace {

bool is_head(const Model& model, std::string_view path) {
  return std::ranges::find(model.heads(), path) != model.heads().end();
}

bool names(std::string_view target, const AdapterPlace& place) {
  const std::string_view path = place.path;
  if (target == "all-linear") return !place.part && dynamic_cast<const nn::Linear*>(place.layer) != nullptr;
  if (target == path || matches_glob(target, path)) return true;
  return path.size() > target.size() && path.ends_with(target) && path[path.size() - target.size() - 1] == '.';
}

[[noreturn]] void refuse_target(const Model& model, const std::vector<AdapterPlace>& places,
                                const std::string& target) {
  if (target == "all-linear")
    reject("adapter.targets: the model has no linear layer besides its head; name convolutions, as {}",
           places.front().path);
  if (is_head(model, target)) reject("adapter.targets: {} is the head, which is trained whole", target);
  std::vector<std::string> known;  // and their ends
  for (const AdapterPlace& place : places) {
    known.push_back(place.path);
    known.push_back(place.path.substr(place.path.rfind('.') + 1));
  }
  const std::string near = nearest_name(target, known);
  reject("adapter.targets: `{}` names no linear layer and no convolution{}; they are named like {}, {}", target,
         near.empty() ? "" : ": did you mean " + near + "?", places.front().path, places.back().path);
}

/// The chosen places. A layer that is chosen whole has none for its parts.
std::vector<AdapterPlace> targeted(const Model& model, const std::vector<std::string>& targets, bool exact) {
  const std::vector<AdapterPlace> all = adapter_places(model);
  if (all.empty()) reject("adapter: the model has no linear layer or convolution besides its head");
  std::set<std::string_view> chosen;
  for (const std::string& target : targets) {
    bool matched = false;
    for (const AdapterPlace& place : all) {
      if (exact ? target != place.path : !names(target, place)) continue;
      matched = true;
      chosen.insert(place.path);
    }
    if (!matched) refuse_target(model, all, target);
  }
  std::vector<AdapterPlace> in_order;
  std::ranges::copy_if(all, std::back_inserter(in_order), [&](const AdapterPlace& place) {
    return chosen.contains(place.path) && !(place.part && chosen.contains(place.layer->path()));
  });
  return in_order;
}

std::vector<Parameter*> adapter_parameters(const Model& model) {
  std::vector<Parameter*> all;
  for (const nn::Adaptable* const layer : adapted_layers(model))
    for (Parameter* const parameter : layer->adapter()->parameters()) all.push_back(parameter);
  return all;
}

std::set<std::string_view> paths_of(const std::vector<Parameter*>& parameters) {
  std::set<std::string_view> paths;
  for (const Parameter* const parameter : parameters) paths.insert(parameter->path());
  return paths;
}

Tensor writable_copy(const Tensor& weight) {
  const DType type = weight.is_coded() ? DType::f32 : weight.dtype();
  Tensor copy = Tensor::empty(weight.shape(), type, weight.device(), Purpose::parameters);
  copy.copy_from(weight);
  return copy;
}

}  // namespace

std::string_view module_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

bool is_bias(std::string_view name) { return name.ends_with(".bias"); }

std::set<std::string> target_paths(const Model& model, const std::vector<std::string>& targets) {
  std::set<std::string> paths;
  for (const AdapterPlace& place : targeted(model, targets, false)) paths.insert(place.path);
  return paths;
}

void add_adapters(Model& model, const AdapterOptions& options) {
  expect(!model.adaptation(), "the model has adapters already");
  const nn::AdapterKind& kind = nn::adapters().get(options.kind);
  const std::vector<AdapterPlace> places = targeted(model, options.targets, options.exact);
  Adaptation adaptation{.kind = options.kind,
                        .settings = options.settings,
                        .layer_settings = options.layer_settings,
                        .base = options.base};
  if (model.context().device != Device::meta) adaptation.base_hash = hash_of(state_of(model));
  for (Module* const module : model.modules()) {
    std::vector<std::size_t> parts;
    std::vector<Options> own;
    for (const AdapterPlace& place : places) {
      if (place.layer != module) continue;
      const auto others = options.layer_settings.find(place.path);
      own.push_back(read_options("adapter " + options.kind, kind.options,
                                 others == options.layer_settings.end() ? options.settings : others->second));
      if (place.part) parts.push_back(*place.part);
      adaptation.layers.push_back(place.path);
    }
    if (own.empty()) continue;
    if (auto* const linear = dynamic_cast<nn::Linear*>(module))
      linear->set_adapter(kind.for_linear(*linear, parts, own));
    else if (auto* const convolution = dynamic_cast<nn::Conv2d*>(module))
      convolution->set_adapter(kind.for_convolution(*convolution, own.front()));
  }
  model.set_adaptation(std::move(adaptation));
}

std::vector<AdapterPlace> adapter_places(const Model& model) {
  std::vector<AdapterPlace> places;
  for (const Module* const module : model.modules()) {
    const auto* const layer = dynamic_cast<const nn::Adaptable*>(module);
    if (layer == nullptr || is_head(model, layer->path())) continue;
    if (!places.empty() && belongs_to(layer->path(), places.back().layer->path())) continue;  // of an adapter
    places.push_back({layer, {}, layer->path()});
    if (const auto* const linear = dynamic_cast<const nn::Linear*>(layer))
      for (std::size_t part = 0; part < linear->parts().size(); ++part)
        places.push_back({layer, part, fmt::format("{}.{}", layer->path(), linear->parts()[part])});
  }
  return places;
}

std::vector<const nn::Adaptable*> adapted_layers(const Model& model) {
  std::vector<const nn::Adaptable*> layers;
  for (const Module* const module : model.modules())
    if (const auto* const layer = dynamic_cast<const nn::Adaptable*>(module);
        layer != nullptr && layer->adapter() != nullptr)
      layers.push_back(layer);
  return layers;
}

std::vector<FreezeMatch> freeze_below_adapters(Model& model, const FreezeRules& rules) {
  expect(model.adaptation().has_value(), "the model has no adapters");
  if (!rules.freeze.empty())
    reject("freeze.freeze: with adapters all else is frozen; freeze.train names what is trained beside them");
  std::vector<FreezeMatch> matches;
  if (rules.train.empty() && model.heads().empty())
    for (Parameter* const parameter : model.parameters()) parameter->set_trainable(false);
  else
    matches =
        freeze(model, {.train = rules.train.empty() ? std::vector<std::string>{"@head"} : rules.train, .freeze = {}},
               model.heads());
  const std::vector<Parameter*> own = adapter_parameters(model);
  const std::set<std::string_view> paths = paths_of(own);
  for (const nn::Adaptable* const layer : adapted_layers(model)) layer->adapter()->set_trainable();
  for (FreezeMatch& match : matches) {
    std::erase_if(match.parameters, [&](const Parameter* one) {
      const bool of_adapter = paths.contains(one->path());
      if (of_adapter && !one->trainable()) match.left_frozen.push_back(one);
      return of_adapter;
    });
    if (match.parameters.empty())
      reject("freeze.train: `{}` matches parameters of the adapter alone; `adapter.name` decides which are trained",
             match.pattern);
  }
  FreezeMatch trained{"adapter " + model.adaptation()->kind, {}};
  std::ranges::copy_if(own, std::back_inserter(trained.parameters), &Parameter::trainable);
  matches.insert(matches.begin(), std::move(trained));
  return matches;
}

std::vector<NamedTensor> adapted_state(const Model& model) {
  expect(model.adaptation().has_value(), "the model has no adapters");
  const std::set<std::string_view> own = paths_of(adapter_parameters(model));
  const std::set<std::string, std::less<>>& replaced = model.adaptation()->replaced;
  std::set<std::string_view> trained, whole;  // modules with a trained or replaced tensor, and with one beside a bias
  for (const Parameter* const parameter : model.parameters()) {
    const std::string_view module = module_of(parameter->path());
    if (own.contains(parameter->path()) || module.empty()) continue;
    if (!parameter->trainable() && !replaced.contains(parameter->path())) continue;
    trained.insert(module);
    if (!is_bias(parameter->path())) whole.insert(module);
  }
  std::vector<NamedTensor> buffers;
  for (const Buffer* const buffer : model.buffers()) {
    const std::string_view module = module_of(buffer->path());
    if (!trained.contains(module) && !replaced.contains(buffer->path())) continue;
    buffers.emplace_back(buffer->path(), buffer->tensor());
    whole.insert(module);
  }
  std::vector<NamedTensor> state;
  for (const Parameter* const parameter : model.parameters())
    if (own.contains(parameter->path()) || parameter->trainable() || replaced.contains(parameter->path()) ||
        whole.contains(module_of(parameter->path())))
      state.emplace_back(parameter->path(), parameter->tensor());
  state.insert(state.end(), buffers.begin(), buffers.end());
  return state;
}

std::vector<NamedTensor> merged_state(const Model& model) {
  const std::set<std::string_view> own = paths_of(adapter_parameters(model));
  std::map<std::string, const nn::Adapter*, std::less<>> adapters;  // by name of the weight
  for (const nn::Adaptable* const layer : adapted_layers(model)) adapters[layer->weight().path()] = layer->adapter();
  std::vector<NamedTensor> merged;
  for (const auto& [name, tensor] : state_of(model)) {
    if (own.contains(name)) continue;
    const auto found = adapters.find(name);
    merged.emplace_back(name, found == adapters.end() ? tensor : writable_copy(tensor));
    if (found != adapters.end()) found->second->merge_into(merged.back().second);
  }
  return merged;
}

void merge(const Model& adapted, Model& plain) {
  std::map<std::string, Tensor, std::less<>> values;
  for (auto& [name, tensor] : merged_state(adapted)) values.emplace(name, tensor);
  for (const auto& [name, tensor] : state_of(plain)) {
    const auto found = values.find(name);
    expect(found != values.end() && found->second.shape() == tensor.shape(), "merge: the models differ in {}", name);
    tensor.copy_from(found->second);
  }
}

}  // namespace lacuna
