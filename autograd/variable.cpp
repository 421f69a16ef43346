#include "autograd/variable.h"

namespace lacuna {

Variable::Value::~Value() {
  tensor = {};  // the slot decides with the memory in its own hands only
  if (slot) slot->release();
}

Variable::Variable(Tensor tensor, bool requires_grad, std::string_view path) : value_(std::make_shared<Value>()) {
  value_->tensor = std::move(tensor);
  value_->path = Label(path);
  if (requires_grad) set_requires_grad(true);
}

void Variable::set_requires_grad(bool wanted) {
  expect(value_->is_leaf, "only a leaf can be told whether it wants a gradient; this value was computed");
  expect(!wanted || is_floating(dtype()), "a tensor of {} has no gradient", name_of(dtype()));
  if (wanted == requires_grad()) return;
  value_->edge.leaf =
      wanted ? std::make_shared<Leaf>(Leaf{.shape = shape(), .path = value_->path, .gradient = {}}) : nullptr;
}

const Tensor& Variable::grad() const {
  expect(value_->edge.leaf != nullptr, "only a leaf that wants a gradient has one");
  return value_->edge.leaf->gradient;
}

void Variable::set_grad(Tensor gradient) {
  expect(value_->edge.leaf != nullptr, "only a leaf that wants a gradient has one");
  value_->edge.leaf->gradient = std::move(gradient);
}

void Variable::set_gradient_type(DType type) {
  expect(value_->edge.leaf != nullptr, "only a leaf that wants a gradient has one");
  expect(is_floating(type), "a gradient cannot be stored as {}", name_of(type));
  value_->edge.leaf->gradient_type = type;
}

Variable Variable::reshape(const Shape& shape) const {
  Variable view;
  view.value_ = std::make_shared<Value>();
  view.value_->tensor = tensor().reshape(shape);
  view.value_->edge = value_->edge;
  view.value_->path = value_->path;
  view.value_->is_leaf = false;
  view.value_->slot = value_->slot;
  if (view.value_->slot) view.value_->slot->hold();
  return view;
}

}  // namespace lacuna
