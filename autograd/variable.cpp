#include "autograd/variable.h"

namespace lacuna {

Variable::Value::~Value() {
  tensor = {};  // first: from here on the saved tensor alone holds the memory
  if (slot) slot->release();
}

Variable::Variable(Tensor tensor, bool requires_grad, std::string_view path) : value_(std::make_shared<Value>()) {
  value_->tensor = std::move(tensor);
  value_->path = Label(path);
  if (requires_grad) set_requires_grad(true);
}

void Variable::set_requires_grad(bool wanted) {
  expect(value().is_leaf, "only a leaf can be told whether it wants a gradient; this value was computed");
  expect(!wanted || is_floating(dtype()), "a tensor of {} has no gradient", name_of(dtype()));
  if (wanted == requires_grad()) return;
  value().edge.leaf =
      wanted ? std::make_shared<Leaf>(Leaf{.shape = shape(), .path = value().path, .gradient = {}}) : nullptr;
}

const Tensor& Variable::grad() const {
  expect(value().edge.leaf != nullptr, "only a leaf that wants a gradient has one");
  return value().edge.leaf->gradient;
}

void Variable::set_grad(Tensor gradient) {
  expect(value().edge.leaf != nullptr, "only a leaf that wants a gradient has one");
  value().edge.leaf->gradient = std::move(gradient);
}

void Variable::set_gradient_type(DType type) {
  expect(value().edge.leaf != nullptr, "only a leaf that wants a gradient has one");
  expect(is_floating(type), "a gradient cannot be stored as {}", name_of(type));
  value().edge.leaf->gradient_type = type;
}

Variable Variable::reshape(const Shape& shape) const {
  Variable view;
  view.value_ = std::make_shared<Value>();
  view.value_->tensor = tensor().reshape(shape);
  view.value_->edge = value().edge;
  view.value_->path = value().path;
  view.value_->is_leaf = false;
  view.value_->slot = value().slot;
  if (view.value_->slot) view.value_->slot->hold();
  return view;
}

}  // namespace lacuna
