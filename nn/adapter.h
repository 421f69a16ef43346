// Adapters: small trained weights in addition to a layer's frozen weight. Each kind registers itself by name, so a new
// kind only adds a file.
#pragma once

#include "core/registry.h"
#include "core/schema.h"
#include "nn/conv.h"
#include "nn/linear.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna::nn {

/// Computes the result of the layer that it belongs to. Its parameters are the layer's: their paths begin with the
/// layer's path.
class Adapter {
 public:
  virtual ~Adapter() = default;
  /// Computes the layer's forward. Arguments that the layer does not take are empty.
  virtual Variable forward(Variable x, Variable scale, const SequencesPtr& sequences) const = 0;
  /// All parameters of the adapter, stored with a checkpoint.
  virtual std::vector<Parameter*> parameters() const = 0;
  /// Makes those parameters trainable that this kind of adapter trains.
  virtual void set_trainable() const = 0;
  /// Merges the adapter into `weight`, a copy of the layer's weight, so that the layer alone gives the adapted results.
  /// Throws if no weight of the layer is equivalent to the adapter.
  virtual void merge_into(const Tensor& weight) const = 0;
};

/// While this object lives, layers compute as without their adapters. Objects of one thread, which may be nested.
class WithoutAdapters {
 public:
  WithoutAdapters();
  ~WithoutAdapters();
  WithoutAdapters(const WithoutAdapters&) = delete;
  WithoutAdapters& operator=(const WithoutAdapters&) = delete;
};

/// An adapter by name. The folder format is PEFT's: https://huggingface.co/docs/peft/developer_guides/checkpoint.
struct AdapterKind {
  Options options;  // with their defaults
  /// Creates an adapter. `parts`: indices of the layer's parts (Linear::parts) that get their own adapter, each with
  /// its options; empty: one adapter for the whole layer.
  std::function<std::unique_ptr<Adapter>(Linear& layer, const std::vector<std::size_t>& parts,
                                         const std::vector<Options>& options)>
      for_linear;
  std::function<std::unique_ptr<Adapter>(Conv2d& layer, const Options&)> for_convolution;
  std::string_view peft_type;  // as in adapter_config.json
  /// Keys of adapter_config.json that are read, or that change nothing once the tensors are there.
  std::vector<std::string_view> peft_keys;
  /// Keys with values by layer, each with the field whose value they replace there.
  std::vector<std::pair<std::string_view, std::string_view>> peft_patterns;
  /// Converts options to fields of adapter_config.json.
  std::function<OptionValues(const Options&)> to_peft;
  /// Converts the flags, numbers and texts of an adapter_config.json to options; `origin` names the file in messages.
  /// Rejects options that this kind does not support.
  std::function<OptionValues(const OptionValues& fields, std::string_view origin)> from_peft;
};

Registry<AdapterKind>& adapters();

/// A static object of this type registers a kind.
struct RegisterAdapter {
  RegisterAdapter(std::string_view name, AdapterKind kind) { adapters().add(name, std::move(kind)); }
};

}  // namespace lacuna::nn
