// What a memory policy is asked and what it answers.
#pragma once

#include "core/op.h"
#include "core/registry.h"

#include <memory>
#include <span>
#include <string_view>

namespace lacuna {

/// One reader of a saved tensor in the backward pass.
struct SlotUser {
  Label op;
  Label path;
  Source source{};  // which tensor of that op
  Need need{};
  bool derives = false;  // reads it to derive another slot, not for a gradient of its own
};

/// All that is known of a tensor when the last variable that names it lets go.
struct SlotFacts {
  Label op;                // what made it: an op, or empty for an input of the program
  Label path;              // in which module
  Source source = output;  // which tensor of that op
  Shape shape;
  DType dtype = DType::f32;
  std::int64_t bytes = 0;
  Need need = Need::sign;  // the strongest among the users
  Groups groups = Groups::run;
  std::int64_t heads = 1;
  bool parameter = false;  // lives on anyway: keeping it costs nothing
  bool derivable = false;  // one cheap pass over tensors that are kept anyway yields it
  int chain = 0;           // passes such a derivation would take at most, itself included
  std::span<const SlotUser> users;
};

/// How a tensor waits for backward.
enum class Hold : std::uint8_t { drop, keep, derive, mask };

std::string_view name_of(Hold hold);

/// A function from facts to holders, without state: the same facts get the same answer.
class MemoryPolicy {
 public:
  virtual ~MemoryPolicy() = default;
  virtual std::string_view name() const = 0;
  /// Asked once a tensor that somebody needs, parameters apart. `derive` is for derivable ones, `mask` for needs of a
  /// sign.
  virtual Hold settle(const SlotFacts& facts) const = 0;
};

Registry<std::shared_ptr<const MemoryPolicy>>& memory_policies();

template <class Policy>
struct RegisterPolicy {
  RegisterPolicy() {
    auto policy = std::make_shared<const Policy>();
    memory_policies().add(policy->name(), policy);
  }
};

}  // namespace lacuna
