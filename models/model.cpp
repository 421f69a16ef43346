#include "models/model.h"

namespace lacuna {

Tensor on_device(const Tensor& tensor, Device device) {
  if (tensor.device() == device) return tensor;
  const AllocationScope scope({Purpose::data, Label("batch"), {}});
  const Tensor copy = Tensor::empty(tensor.shape(), tensor.dtype(), device, Purpose::data);
  copy.copy_from(tensor);
  return copy;
}

Inputs::Inputs(Batch batch) {
  std::vector<std::string> names;
  for (const auto& entry : batch) names.push_back(entry.first);
  for (const std::string& name : names) set(name, Variable(batch.take(name), false, name));
}

Variable Inputs::take(std::string_view name) {
  expect(contains(name), "the model expects an input `{}`, got {}", name, names());
  return NamedValues::take(name);
}

Variable Inputs::take(std::string_view name, Device device) {
  Variable input = take(name);
  if (input.device() == device) return input;
  expect(!input.requires_grad(), "the input `{}` gathers a gradient on {}: expected it on the model's device {}", name,
         name_of(input.device()), name_of(device));
  return Variable(on_device(input.tensor(), device), false, name);
}

Tensor Model::adapt(const Parameter&, const Tensor&, Library) const { return {}; }

}  // namespace lacuna
