#include "autograd/variable.h"

#include "autograd/saved_tensor.h"

namespace lacuna {

Variable::Value::~Value() {
  tensor = {};  // first, so that only the saved tensor holds the memory
  if (saved) saved->remove_name();
}

Variable::Variable(Tensor tensor, bool requires_grad, std::string_view path) : value_(std::make_shared<Value>()) {
  value_->tensor = std::move(tensor);
  value_->path = Label(path);
  if (requires_grad) set_requires_grad(true);
}

Variable Variable::computed(Tensor tensor, Label path) {
  Variable result;
  result.value_ = std::make_shared<Value>();
  result.value_->tensor = std::move(tensor);
  result.value_->path = path;
  result.value_->is_leaf = false;
  return result;
}

void Variable::set_requires_grad(bool wanted) {
  expect(value().is_leaf, "only a leaf can be told whether it requires a gradient; this value was computed");
  const bool is_bf16 = tensor().is_coded() && tensor().format().code == WeightCode::bf16;
  expect(!wanted || is_floating(dtype()) || is_bf16, "a tensor of {} has no gradient{}", name_of(dtype()),
         tensor().is_coded() ? ": weights in few bits other than bf16 stay frozen" : "");
  if (wanted == requires_grad()) return;
  value().edge.leaf =
      wanted ? std::make_shared<Leaf>(Leaf{.shape = shape(), .path = value().path, .gradient = {}}) : nullptr;
}

Leaf& Variable::gathering() const {
  expect(value().edge.leaf != nullptr, "only a leaf that requires a gradient has one");
  return *value().edge.leaf;
}

void Variable::set_gradient_type(DType type) {
  expect(is_floating(type), "a gradient cannot be stored as {}", name_of(type));
  gathering().gradient_type = type;
}

Variable Variable::alias(const Shape& shape) const {
  Variable other = computed(tensor().reshape(shape), value().path);
  other.value_->saved = value().saved;
  if (other.value_->saved) other.value_->saved->add_name();
  return other;
}

Variable Variable::reshape(const Shape& shape) const {
  Variable view = alias(shape);
  view.value_->edge = value().edge;
  return view;
}

Variable Variable::detach() const {
  Variable constant = alias(shape());
  constant.value_->is_leaf = true;
  constant.value_->path = {};
  return constant;
}

void Variable::throw_undefined() {
  fail("an undefined variable was used: it was never assigned, or was moved from; check defined() before");
}

}  // namespace lacuna
