#include "nn/module.h"

namespace lacuna {

namespace {

/// The type of parameters and statistics: f32, or f64 in a model that computes in f64.
DType stored_type(const ModelContext& context) { return context.dtype == DType::f64 ? DType::f64 : DType::f32; }

const WeightFormat* format_of(const ModelContext& context, const std::string& path) {
  if (context.formats == nullptr) return nullptr;
  const auto found = context.formats->find(path);
  return found == context.formats->end() ? nullptr : &found->second;
}

}  // namespace

Parameter::Parameter(Module& owner, std::string_view name, const Shape& shape, const Init& init)
    : path_(owner.child_path(name)) {
  const ModelContext& context = owner.context();
  const AllocationScope scope({Purpose::parameters, {}, Label(path_)});
  const WeightFormat* const format = format_of(context, path_);
  Tensor tensor = format != nullptr ? Tensor::coded(shape, *format, context.device, Purpose::parameters)
                                    : Tensor::empty(shape, stored_type(context), context.device, Purpose::parameters);
  const RandomStream stream{context.seed, 0, random_site(path_)};
  if (context.device == Device::cpu && format == nullptr) {
    init(tensor, stream);
  } else if (context.device.kind != DeviceKind::meta && (format == nullptr || format->code != WeightCode::fp4)) {
    // Drawn on the CPU: the same numbers on every device.
    const Tensor drawn = Tensor::empty(shape, stored_type(context), Device::cpu);
    init(drawn, stream);
    tensor.copy_from(drawn);
  }
  const bool is_trainable = format == nullptr || format->code == WeightCode::bf16;
  variable_ = Variable(std::move(tensor), is_trainable, path_);
  owner.parameters_.push_back(this);
}

Buffer::Buffer(Module& owner, std::string_view name, const Shape& shape, double value, DType dtype)
    : path_(owner.child_path(name)) {
  const AllocationScope scope({Purpose::parameters, {}, Label(path_)});
  if (dtype == DType::f32) dtype = stored_type(owner.context());
  tensor_ = Tensor::full(shape, value, dtype, owner.context().device, Purpose::parameters);
  owner.buffers_.push_back(this);
}

Module::Module(const ModelContext& context) : own_context_(context), context_(&own_context_) {
  Module* const parent = context.part_of.parent;
  if (parent == nullptr) return;
  context_ = parent->context_;
  path_ = parent->child_path(context.part_of.name);
  label_ = Label(path_);
  parent->children_.push_back(this);
}

Module::Module(Module& parent, std::string_view name)
    : context_(parent.context_), path_(parent.child_path(name)), label_(path_) {
  parent.children_.push_back(this);
}

std::string Module::child_path(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> all{this};
  for (Module* child : children_) {
    const std::vector<Module*> theirs = child->modules();
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  return all;
}

std::vector<const Module*> Module::modules() const {
  const std::vector<Module*> all = const_cast<Module*>(this)->modules();
  return {all.begin(), all.end()};
}

std::vector<Parameter*> Module::parameters() const {
  std::vector<Parameter*> all = parameters_;
  for (const Module* child : children_) {
    const std::vector<Parameter*> theirs = child->parameters();
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  return all;
}

std::vector<Buffer*> Module::buffers() const {
  std::vector<Buffer*> all = buffers_;
  for (const Module* child : children_) {
    const std::vector<Buffer*> theirs = child->buffers();
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  return all;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter* parameter : parameters()) count += parameter->tensor().count();
  return count;
}

void Module::notify_freeze() {
  on_freeze();
  for (Module* child : children_) child->notify_freeze();
}

}  // namespace lacuna
