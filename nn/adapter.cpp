#include "nn/adapter.h"

namespace lacuna::nn {

Registry<AdapterKind>& adapters() {
  static Registry<AdapterKind> all("adapter");
  return all;
}

Adaptable::Adaptable(Module& parent, std::string_view name) : Module(parent, name) {}
Adaptable::~Adaptable() = default;

void Adaptable::set_adapter(std::unique_ptr<Adapter> adapter) {
  expect(adapter_ == nullptr, "{} has an adapter already", path());
  adapter_ = std::move(adapter);
}

}  // namespace lacuna::nn
