// Layers that support adapters.
#pragma once

#include "nn/module.h"

#include <memory>

namespace lacuna::nn {

class Adapter;

/// A layer with a weight and optionally an adapter (nn/adapter.h), which then computes the layer's result.
class Adaptable : public Module {
 public:
  Adaptable(Module& parent, std::string_view name);
  ~Adaptable() override;

  virtual const Parameter& weight() const = 0;
  /// The adapter, or null if there is none.
  const Adapter* adapter() const { return adapter_.get(); }
  void set_adapter(std::unique_ptr<Adapter> adapter);

 protected:
  /// The adapter, unless there is none or it is left out (WithoutAdapters).
  const Adapter* active_adapter() const;

 private:
  std::unique_ptr<Adapter> adapter_;
};

}  // namespace lacuna::nn
