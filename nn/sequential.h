// A sequence of modules and functions.
#pragma once

#include "nn/module.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lacuna::nn {

/// Runs its entries in order, like torch.nn.Sequential. Entries are named "0", "1", ..., functions included, so that
/// parameters have PyTorch's paths:
///
///   nn::Sequential body(*this, "body");
///   body.add<nn::Linear>(64, 128).add(relu).add<nn::Linear>(128, 10);  // body.0.weight, body.2.weight, ...
///
/// A memory policy may checkpoint the module at `body`, so functions must depend only on their input and the random
/// state.
class Sequential : public Module {
 public:
  using Function = std::function<Variable(Variable)>;

  Sequential(Module& parent, std::string_view name) : Module(parent, name) {}

  /// Constructs M(*this, "<number>", arguments...) as the last entry. M has `Variable forward(Variable)`.
  template <class M, class... Arguments>
  Sequential& add(Arguments&&... arguments) {
    auto module = std::make_shared<M>(*this, std::to_string(entries_.size()), std::forward<Arguments>(arguments)...);
    entries_.push_back([module](Variable x) { return module->forward(std::move(x)); });
    return *this;
  }
  Sequential& add(Function function) {
    entries_.push_back(std::move(function));
    return *this;
  }

  std::size_t size() const { return entries_.size(); }
  Variable forward(Variable x) const;

 private:
  std::vector<Function> entries_;
};

}  // namespace lacuna::nn
