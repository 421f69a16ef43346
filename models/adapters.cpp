#include "models/adapters.h"

#include "core/glob.h"
#include "models/io/weights.h"

#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <map>
#include <memory>

namespace lacuna {
namespace {

std::vector<nn::Linear*> linear_layers(Model& model) {
  std::vector<nn::Linear*> layers;
  for (Module* const module : model.modules())
    if (auto* const layer = dynamic_cast<nn::Linear*>(module))
      if (std::ranges::find(model.heads(), layer->path()) == model.heads().end()) layers.push_back(layer);
  return layers;
}

bool names(std::string_view target, std::string_view path) {
  if (target == "all-linear" || target == path || matches_glob(target, path)) return true;
  return path.size() > target.size() && path.ends_with(target) && path[path.size() - target.size() - 1] == '.';
}

std::vector<nn::Linear*> targeted(Model& model, const std::vector<std::string>& targets, bool exact) {
  const std::vector<nn::Linear*> all = linear_layers(model);
  std::vector<std::string> paths;
  for (const nn::Linear* const layer : all) paths.push_back(layer->path());
  if (paths.empty()) reject("adapter: the model has no linear layer besides its head");
  std::set<const nn::Linear*> chosen;
  for (const std::string& target : targets) {
    bool matched = false;
    for (const nn::Linear* const layer : all) {
      if (exact ? target != layer->path() : !names(target, layer->path())) continue;
      matched = true;
      chosen.insert(layer);
    }
    if (matched) continue;
    if (std::ranges::find(model.heads(), target) != model.heads().end())
      reject("adapter.targets: {} is the head, which is trained whole", target);
    std::vector<std::string> known = paths;  // and their ends
    for (const std::string& path : paths) known.push_back(path.substr(path.rfind('.') + 1));
    const std::string near = nearest_name(target, known);
    reject("adapter.targets: `{}` names no linear layer{}; they are named like {}, {}", target,
           near.empty() ? "" : ": did you mean " + near + "?", paths.front(), paths.back());
  }
  std::vector<nn::Linear*> in_order;
  std::ranges::copy_if(all, std::back_inserter(in_order), [&](const nn::Linear* one) { return chosen.contains(one); });
  return in_order;
}

std::string hash_of(const std::vector<NamedTensor>& state) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  for (const auto& [name, tensor] : state)
    XXH3_64bits_update(hash.get(), tensor.data<const std::byte>(), static_cast<std::size_t>(tensor.bytes()));
  return fmt::format("{:016x}", XXH3_64bits_digest(hash.get()));
}

std::vector<Parameter*> adapter_parameters(const Model& model) {
  std::vector<Parameter*> all;
  for (const nn::Linear* const layer : adapted_layers(model))
    for (Parameter* const parameter : layer->adapter()->parameters()) all.push_back(parameter);
  return all;
}

std::set<std::string_view> paths_of(const std::vector<Parameter*>& parameters) {
  std::set<std::string_view> paths;
  for (const Parameter* const parameter : parameters) paths.insert(parameter->path());
  return paths;
}

std::string_view module_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

}  // namespace

void add_adapters(Model& model, const AdapterOptions& options) {
  expect(!model.adaptation(), "the model has adapters already");
  const nn::AdapterKind& kind = nn::adapters().get(options.kind);
  const Settings settings("adapter " + options.kind, kind.settings, options.settings);
  const std::vector<nn::Linear*> layers = targeted(model, options.targets, options.exact);
  Adaptation adaptation{.kind = options.kind, .settings = options.settings, .base = options.base};
  if (model.context().device != Device::meta) adaptation.base_hash = hash_of(state_of(model));
  for (nn::Linear* const layer : layers) {
    layer->set_adapter(kind.make(*layer, settings));
    adaptation.layers.push_back(layer->path());
  }
  model.set_adaptation(std::move(adaptation));
}

std::vector<const nn::Linear*> adapted_layers(const Model& model) {
  std::vector<const nn::Linear*> layers;
  for (const Module* const module : model.modules())
    if (const auto* const layer = dynamic_cast<const nn::Linear*>(module); layer != nullptr && layer->adapter() != nullptr)
      layers.push_back(layer);
  return layers;
}

std::vector<FreezeMatch> freeze_below_adapters(Model& model, const FreezeRules& rules) {
  expect(model.adaptation().has_value(), "the model has no adapters");
  if (!rules.freeze.empty())
    reject("freeze.freeze: with adapters all else is frozen; freeze.train names what is trained beside them");
  const std::vector<std::string> beside = rules.train.empty() ? std::vector<std::string>{"@head"} : rules.train;
  std::vector<FreezeMatch> matches = freeze(model, {.train = beside, .freeze = {}}, model.heads());
  const std::vector<Parameter*> own = adapter_parameters(model);
  const std::set<std::string_view> paths = paths_of(own);
  for (FreezeMatch& match : matches) {
    std::erase_if(match.parameters, [&](const Parameter* one) { return paths.contains(one->path()); });
    if (match.parameters.empty())
      reject("freeze.train: `{}` matches parameters of the adapter alone; `adapter.name` decides which are trained",
             match.pattern);
  }
  for (const nn::Linear* const layer : adapted_layers(model)) layer->adapter()->set_trainable();
  FreezeMatch trained{"adapter " + model.adaptation()->kind, {}};
  std::ranges::copy_if(own, std::back_inserter(trained.parameters), &Parameter::trainable);
  matches.insert(matches.begin(), std::move(trained));
  return matches;
}

std::vector<NamedTensor> adapted_state(const Model& model) {
  expect(model.adaptation().has_value(), "the model has no adapters");
  const std::set<std::string_view> own = paths_of(adapter_parameters(model));
  std::set<std::string_view> trained;  // modules with a trained parameter
  std::vector<NamedTensor> state;
  for (const Parameter* const parameter : model.parameters()) {
    const bool is_own = own.contains(parameter->path());
    if (parameter->trainable() && !is_own) trained.insert(module_of(parameter->path()));
    if (is_own || parameter->trainable() || model.adaptation()->replaced.contains(parameter->path()))
      state.emplace_back(parameter->path(), parameter->tensor());
  }
  for (const Buffer* const buffer : model.buffers())
    if (trained.contains(module_of(buffer->path())) || model.adaptation()->replaced.contains(buffer->path()))
      state.emplace_back(buffer->path(), buffer->tensor());
  return state;
}

std::vector<NamedTensor> merged_state(const Model& model) {
  const std::set<std::string_view> own = paths_of(adapter_parameters(model));
  std::map<std::string, const nn::LinearAdapter*, std::less<>> adapters;  // by name of the weight
  for (const nn::Linear* const layer : adapted_layers(model)) adapters[layer->weight().path()] = layer->adapter();
  std::vector<NamedTensor> merged;
  for (const auto& [name, tensor] : state_of(model)) {
    if (own.contains(name)) continue;
    const auto found = adapters.find(name);
    merged.emplace_back(name, found == adapters.end() ? tensor : tensor.clone(Purpose::parameters));
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
