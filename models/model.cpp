#include "models/model.h"

namespace lacuna {

Inputs::Inputs(Batch batch) {
  std::vector<std::string> names;
  for (const auto& entry : batch) names.push_back(entry.first);
  for (const std::string& name : names) set(name, Variable(batch.take(name), false, name));
}

Variable Inputs::take(std::string_view name) {
  expect(contains(name), "the model expects an input `{}`, got {}", name, names());
  return NamedValues::take(name);
}

Tensor Model::adapt(const Parameter&, const Tensor&, Library) const { return {}; }

}  // namespace lacuna
