// Adapters: few trained values beside the frozen weight of a linear layer, by name. A new kind only adds a file: it
// registers itself.
#pragma once

#include "core/registry.h"
#include "core/settings.h"
#include "nn/linear.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::nn {

/// What computes the result of a layer that it belongs to. Its parameters are the layer's: their paths begin with that
/// of the layer.
class LinearAdapter {
 public:
  virtual ~LinearAdapter() = default;
  /// As Linear::forward.
  virtual Variable forward(const Linear& layer, Variable x, Variable scale) const = 0;
  /// All parameters of the adapter, stored with a checkpoint.
  virtual std::vector<Parameter*> parameters() const = 0;
  /// Trains of them what the kind trains.
  virtual void set_trainable() const = 0;
  /// Adds to `weight` [out, in], a copy of the layer's, what makes the layer alone give the adapted results.
  virtual void merge_into(const Tensor& weight) const = 0;
};

/// An adapter by name. The folder format is PEFT's: https://huggingface.co/docs/peft/developer_guides/checkpoint.
struct AdapterKind {
  std::vector<Setting> settings;
  std::function<std::unique_ptr<LinearAdapter>(Linear& layer, const Settings&)> make;
  std::string_view peft_type;  // as in adapter_config.json
  /// The fields of adapter_config.json that the settings are written as.
  std::function<SettingValues(const Settings&)> to_peft;
  /// The settings of a folder: from its configuration's flags, numbers and texts (`origin` names it in messages).
  /// Refuses what this kind does not compute.
  std::function<SettingValues(const SettingValues& fields, std::string_view origin)> from_peft;
};

Registry<AdapterKind>& adapters();

/// A static object of this type registers a kind.
struct RegisterAdapter {
  RegisterAdapter(std::string_view name, AdapterKind kind) { adapters().add(name, std::move(kind)); }
};

}  // namespace lacuna::nn
