// Layers that an adapter may stand beside.
#pragma once

#include "nn/module.h"

#include <memory>

namespace lacuna::nn {

class Adapter;

/// A layer with a weight, and perhaps an adapter that computes the result in its place (nn/adapter.h).
class Adaptable : public Module {
 public:
  Adaptable(Module& parent, std::string_view name);
  ~Adaptable() override;

  virtual const Parameter& weight() const = 0;
  /// Null: the layer itself computes its result.
  const Adapter* adapter() const { return adapter_.get(); }
  void set_adapter(std::unique_ptr<Adapter> adapter);

 private:
  std::unique_ptr<Adapter> adapter_;
};

}  // namespace lacuna::nn
