// Models with adapters: base weights that stay as they are, and few trained values beside them.
#pragma once

#include "models/io/safetensors.h"
#include "models/model.h"
#include "nn/adapter.h"
#include "nn/freeze.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lacuna {

struct AdapterOptions {
  std::string kind;                                                   // in nn::adapters()
  OptionValues settings{};                                            // of the kind; the defaults of others
  std::map<std::string, OptionValues, std::less<>> layer_settings{};  // in place of `settings`, by path
  /// Layers that get one: paths, ends of paths behind a dot (`qkv`, `conv1`), patterns, or `all-linear`. Parts of a
  /// layer have names as layers have (`query`, of `blocks.0.attn.qkv.query`). The heads never get one.
  std::vector<std::string> targets{};
  bool exact = false;  // `targets` are paths alone, as stored ones
  std::string base{};  // where the model's weights are from, for the record
};

/// A place for an adapter: a linear layer or convolution, or a part of a layer (Linear::parts).
struct AdapterPlace {
  const nn::Adaptable* layer;
  std::optional<std::size_t> part{};
  std::string path{};  // the layer's, with the part's name
};
/// All places but the heads', in the model's order, a layer before its parts.
std::vector<AdapterPlace> adapter_places(const Model& model);

/// The paths that `targets` choose.
std::set<std::string> target_paths(const Model& model, const std::vector<std::string>& targets);

/// Adds adapters to layers of a model whose weights are loaded. Refuses a target without a layer.
void add_adapters(Model& model, const AdapterOptions& options);

/// The adapted layers, in the model's order.
std::vector<const nn::Adaptable*> adapted_layers(const Model& model);

/// `freeze` for a model with adapters: what they train is trained, and of the rest what `rules.train` names, or the
/// heads where it names nothing. Refuses `rules.freeze`, and a pattern that matches parameters of the adapters alone;
/// what a pattern matches of an adapter that its kind does not train is said in the match.
std::vector<FreezeMatch> freeze_below_adapters(Model& model, const FreezeRules& rules);

/// The module of a tensor; empty: it is the model's own.
std::string_view module_of(std::string_view name);
bool is_bias(std::string_view name);

/// The tensors in a checkpoint of an adapted model: the adapters, and trained or replaced parameters below them, with
/// the others of their modules unless only biases are trained, as PEFT has it. Names and tensors are the model's own.
std::vector<NamedTensor> adapted_state(const Model& model);

/// Parameters and buffers of the model without adapters that gives the same results: the adapters are added to the
/// weights (W + s·B·A). Other tensors are the model's own.
std::vector<NamedTensor> merged_state(const Model& model);

/// Sets `plain`, a model of the same form without adapters, to that.
void merge(const Model& adapted, Model& plain);

}  // namespace lacuna
