#include "nn/adapter.h"

namespace lacuna::nn {

Registry<AdapterKind>& adapters() {
  static Registry<AdapterKind> all("adapter");
  return all;
}

namespace {

thread_local int left_out = 0;  // objects of WithoutAdapters

}  // namespace

WithoutAdapters::WithoutAdapters() { ++left_out; }
WithoutAdapters::~WithoutAdapters() { --left_out; }

Adaptable::Adaptable(Module& parent, std::string_view name) : Module(parent, name) {}
Adaptable::~Adaptable() = default;
const Adapter* Adaptable::active_adapter() const { return left_out == 0 ? adapter_.get() : nullptr; }

void Adaptable::set_adapter(std::unique_ptr<Adapter> adapter) {
  expect(adapter_ == nullptr, "{} has an adapter already", path());
  adapter_ = std::move(adapter);
}

}  // namespace lacuna::nn
