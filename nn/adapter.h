// Adapters: few trained values beside the frozen weight of a layer, by name. A new kind only adds a file: it registers
// itself.
#pragma once

#include "core/registry.h"
#include "core/settings.h"
#include "nn/conv.h"
#include "nn/linear.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::nn {

/// Computes the result of the layer that it belongs to. Its parameters are the layer's: their paths begin with the
/// layer's path.
class Adapter {
 public:
  virtual ~Adapter() = default;
  /// As the layer's forward; what a layer does not take is empty.
  virtual Variable forward(Variable x, Variable scale, const SequencesPtr& sequences) const = 0;
  /// All parameters of the adapter, stored with a checkpoint.
  virtual std::vector<Parameter*> parameters() const = 0;
  /// Trains of them what the kind trains.
  virtual void set_trainable() const = 0;
  /// Adds to `weight`, a copy of the layer's, what makes the layer alone give the adapted results. Refuses an adapter
  /// that no weight of the layer equals.
  virtual void merge_into(const Tensor& weight) const = 0;
};

/// An adapter by name. The folder format is PEFT's: https://huggingface.co/docs/peft/developer_guides/checkpoint.
struct AdapterKind {
  std::vector<Setting> settings;
  /// `parts`: numbers of those parts of the layer (Linear::parts) that have one each; empty: one for the whole layer.
  std::function<std::unique_ptr<Adapter>(Linear& layer, const std::vector<std::size_t>& parts, const Settings&)>
      for_linear;
  std::function<std::unique_ptr<Adapter>(Conv2d& layer, const Settings&)> for_convolution;
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
