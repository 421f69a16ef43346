// Models with adapters: base weights that stay as they are, and few trained values beside them.
#pragma once

#include "models/io/safetensors.h"
#include "models/model.h"
#include "nn/adapter.h"
#include "nn/freeze.h"

#include <string>
#include <vector>

namespace lacuna {

struct AdapterOptions {
  std::string kind;          // in nn::adapters()
  SettingValues settings{};  // of the kind; the defaults of others
  /// Layers that get one: paths, ends of paths behind a dot (`qkv`), patterns, or `all-linear`. The heads never get one.
  std::vector<std::string> targets{};
  bool exact = false;  // `targets` are paths alone, as stored ones
  std::string base{};  // where the model's weights are from, for the record
};

/// Adds adapters to linear layers of a model whose weights are loaded. Refuses a target without a layer.
void add_adapters(Model& model, const AdapterOptions& options);

/// The adapted layers, in the model's order.
std::vector<const nn::Linear*> adapted_layers(const Model& model);

/// `freeze` for a model with adapters: what they train is trained, and of the rest what `rules.train` names, or the
/// heads where it names nothing. Refuses `rules.freeze`, and a pattern that matches parameters of the adapters alone.
std::vector<FreezeMatch> freeze_below_adapters(Model& model, const FreezeRules& rules);

/// What a checkpoint of an adapted model stores: the adapters, and what is trained or was replaced below them. Names
/// and tensors are the model's own.
std::vector<NamedTensor> adapted_state(const Model& model);

/// Parameters and buffers of the model without adapters that gives the same results: the adapters are added to the
/// weights (W + s·B·A). Other tensors are the model's own.
std::vector<NamedTensor> merged_state(const Model& model);

/// Sets `plain`, a model of the same form without adapters, to that.
void merge(const Model& adapted, Model& plain);

}  // namespace lacuna
