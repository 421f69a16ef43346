// The search for the first value of a step that is not finite.
#pragma once

#include "autograd/tape.h"

#include <optional>
#include <string>
#include <vector>

namespace lacuna::apps {

/// Watches a step that is run again because its loss was not finite.
class NonFiniteSearch final : public Observer {
 public:
  void before(Phase, const Operation&, Label) override {}
  void after(Phase phase, const Operation& op, Label path, const Work& work, std::span<const Tensor> results) override;

  /// The op and module where the first such value came up, and the largest values until then.
  std::string describe() const;

 private:
  struct Largest {
    std::string where;
    double magnitude;
  };
  std::optional<std::string> first_;
  std::vector<Largest> largest_;  // falling
};

}  // namespace lacuna::apps
