// Modules: named parts of a model that own parameters and buffers.
#pragma once

#include "autograd/apply.h"
#include "core/random.h"

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Fills a new parameter; not called on `meta`.
using Init = std::function<void(const Tensor&, RandomStream)>;

class Module;

/// Formats of the parameters that are stored in few bits, by path.
using WeightFormats = std::map<std::string, WeightFormat, std::less<>>;

/// A tensor in f32, or in few bits: trained in f32 and bf16 alone. Registers itself with its module under `name`; its
/// path is the module's path and the name.
class Parameter {
 public:
  Parameter(Module& owner, std::string_view name, const Shape& shape, const Init& init);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& path() const { return path_; }
  const Tensor& tensor() const { return variable_.tensor(); }
  const Shape& shape() const { return variable_.shape(); }
  const Variable& variable() const { return variable_; }
  /// Whether the ops that read the parameter take it in few bits: weights of linear layers and convolutions, tables.
  bool takes_few_bits() const { return takes_few_bits_; }
  void allow_few_bits() { takes_few_bits_ = true; }
  bool trainable() const { return variable_.requires_grad(); }
  void set_trainable(bool trainable) { variable_.set_requires_grad(trainable); }
  const Tensor& grad() const { return variable_.grad(); }
  void set_grad(Tensor gradient) { variable_.set_grad(std::move(gradient)); }
  /// Stores the gradient as `type`. Does nothing for a frozen parameter.
  void set_gradient_type(DType type) {
    if (trainable()) variable_.set_gradient_type(type);
  }
  /// Whether recipes exclude the parameter from weight decay, by timm's rule: norms and biases, which have one axis or
  /// less, and the names that the model lists (timm's `no_weight_decay`).
  bool excluded_from_decay() const { return excluded_from_decay_ || shape().rank() <= 1; }
  void exclude_from_decay() { excluded_from_decay_ = true; }

 private:
  std::string path_;
  Variable variable_;
  bool excluded_from_decay_ = false;
  bool takes_few_bits_ = false;
};

/// State that is saved with the parameters but not trained, such as running statistics.
class Buffer {
 public:
  Buffer(Module& owner, std::string_view name, const Shape& shape, double value, DType dtype = DType::f32);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const std::string& path() const { return path_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  std::string path_;
  Tensor tensor_;
};

class Module;

/// The place of a model that is a part of another: its backbone, which has no head and gives maps (models/backbone.h).
struct PartOf {
  Module* parent = nullptr;  // null: a model of its own
  std::string name{};
  std::vector<std::int64_t> maps{};  // numbers of the maps that it gives, ascending; negative ones count from the end
  bool map_norm = false;             // a map ends in the norm that the model has before its head
};

/// The settings that all modules of a model share.
struct ModelContext {
  Device device = Device::cpu;
  std::uint64_t seed = 1;    // seed of the initial values
  DType dtype = DType::f32;  // type of activations
  bool training = true;
  std::shared_ptr<const WeightFormats> formats{};  // null: all parameters are f32
  PartOf part_of{};
};

/// The role that a model declares for a part of itself, for the named sets of `freeze`.
enum class Role : std::uint8_t {
  part,
  block,  // one of the model's repeated units
  norm,   // a normalisation layer
};

class Module {
 public:
  /// The root of a model, whose children's paths have no prefix, or a child where the model is a part of another.
  explicit Module(const ModelContext& context);
  /// A child of `parent`; `name` may contain dots (`layer1.0`).
  Module(Module& parent, std::string_view name);
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& path() const { return path_; }
  const ModelContext& context() const { return *context_; }
  bool training() const { return context_->training; }
  /// Switches the whole model that this module belongs to between training and evaluation.
  void set_training(bool training) { context_->training = training; }

  Role role() const { return role_; }
  void set_role(Role role) { role_ = role; }

  /// Whether layer-wise learning rates treat this module as part of the preceding block, as timm does for a final norm.
  bool follows_block() const { return follows_block_; }
  void set_follows_block() { follows_block_ = true; }

  /// This module and its descendants, in the order of construction.
  std::vector<Module*> modules();
  std::vector<const Module*> modules() const;
  /// The parameters of this module and its descendants, in the order of construction.
  std::vector<Parameter*> parameters() const;
  /// The parameters of this module without its children's.
  std::span<Parameter* const> own_parameters() const { return parameters_; }
  std::vector<Buffer*> buffers() const;
  std::int64_t parameter_count() const;

  /// Called when the set of trained parameters has changed.
  virtual void on_freeze() {}
  void notify_freeze();

 protected:
  /// While this object lives, memory and saved tensors are attributed to this module.
  class Scope {
   public:
    explicit Scope(const Module& module) : scope_({Purpose::transient, {}, module.label_}) {}

   private:
    AllocationScope scope_;
  };
  RandomStream stream(std::string_view purpose) const { return random_stream(path_ + "." + std::string(purpose)); }

 private:
  friend class Parameter;
  friend class Buffer;
  std::string child_path(std::string_view name) const;

  ModelContext own_context_;
  ModelContext* context_;
  std::string path_;
  Label label_;
  Role role_ = Role::part;
  bool follows_block_ = false;
  std::vector<Module*> children_;
  std::vector<Parameter*> parameters_;
  std::vector<Buffer*> buffers_;
};

/// Whether the parameter or buffer `name` lies in the module at `path`.
inline bool belongs_to(std::string_view name, std::string_view path) {
  return name.size() > path.size() && name.starts_with(path) && name[path.size()] == '.';
}

}  // namespace lacuna
