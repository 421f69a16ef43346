// A model: named inputs to named outputs.
#pragma once

#include "core/schema.h"
#include "data/batch.h"
#include "data/sample.h"
#include "nn/module.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

struct TensorNames;

/// `tensor` of a batch on `device`: itself, or a copy of Purpose::data.
Tensor on_device(const Tensor& tensor, Device device);

/// The inputs of a model by name. A batch converts to constants; an input that gathers a gradient is given as a
/// Variable. Batches lie on the host: a model copies what it reads to its device, a task what it compares with outputs.
class Inputs : public NamedValues<Variable> {
 public:
  using NamedValues::NamedValues;
  Inputs(Batch batch);  // NOLINT(google-explicit-constructor): a model takes a batch

  /// Removes the input `name` and returns it; an error that lists the given ones where it is missing.
  Variable take(std::string_view name);
  /// The same, copied to `device` if it lies elsewhere.
  Variable take(std::string_view name, Device device);
};

/// The outputs of a model by name: `logits` of a classifier.
using Outputs = NamedValues<Variable>;

/// Inputs and outputs of a model.
struct ModelSignature {
  SampleFields inputs;              // of one sample, in the types that data sets give
  std::int64_t num_classes = 1000;  // outputs of each head
  std::vector<std::string> heads;   // paths of the layers whose shape depends on num_classes
  // Paths that weights to start from may have for other tasks, and those of ours that they may lack.
  std::vector<std::string> other_heads{}, optional_parts{};
};

/// Whose conventions a file of weights follows, where they differ.
enum class Library : std::uint8_t { timm, transformers };

/// How a model is adapted (models/adapters.h).
struct Adaptation {
  std::string kind;                                                   // of adapter
  OptionValues settings{};                                            // that were given
  std::map<std::string, OptionValues, std::less<>> layer_settings{};  // in their place, by path
  std::vector<std::string> layers{};                                  // paths of those that have an adapter
  std::string base{};                                                 // where the weights below are from; may be empty
  std::string base_hash{};                                            // of those weights; empty on `meta`
  std::set<std::string, std::less<>> replaced{};  // names below the adapters that were loaded with them
};

class Model : public Module {
 public:
  Model(const ModelContext& context, ModelSignature signature) : Module(context), signature_(std::move(signature)) {}

  const SampleFields& inputs() const { return signature_.inputs; }
  std::int64_t num_classes() const { return signature_.num_classes; }
  const std::vector<std::string>& heads() const { return signature_.heads; }
  /// Nothing: the model has no adapters.
  const std::optional<Adaptation>& adaptation() const { return adaptation_; }
  void set_adaptation(Adaptation adaptation) { adaptation_ = std::move(adaptation); }
  const std::vector<std::string>& other_heads() const { return signature_.other_heads; }
  const std::vector<std::string>& optional_parts() const { return signature_.optional_parts; }

  /// The path of the backbone, whose weights alone a file may hold; empty: it has none.
  virtual std::string_view backbone_path() const { return {}; }
  /// Names of the backbone's tensors in files of it as a classifier; null: those behind backbone_path.
  virtual const TensorNames* backbone_names() const { return nullptr; }
  /// The option that makes tensors fit files that have them in other shapes, in words; empty: none is known.
  virtual std::string_view advice_on_shapes() const { return {}; }

  /// A stored parameter as the model can have it, where their shapes differ for a reason that the model knows: a table
  /// of another window. Undefined where there is none. `stored` may be on `meta`.
  virtual Tensor adapt(const Parameter& parameter, const Tensor& stored, Library library) const;

  /// Takes the inputs that it reads by name and ignores others. Move the batch to free what forward needs no longer.
  virtual Outputs forward(Inputs inputs) = 0;

 private:
  ModelSignature signature_;
  std::optional<Adaptation> adaptation_;
};

}  // namespace lacuna
