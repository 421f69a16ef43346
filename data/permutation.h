// A random order of [0, size) that is computed entry by entry: nothing to store, and any epoch's order can be entered
// anywhere.
#pragma once

#include "core/random.h"

#include <cstdint>

namespace lacuna {

/// A bijection of [0, size) keyed by `stream`: a generalised Feistel cipher, and a walk back into the domain (Black and
/// Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, section 5).
class Permutation {
 public:
  Permutation(std::int64_t size, const RandomStream& stream);

  /// Entry `position` of the order.
  std::int64_t operator()(std::int64_t position) const;

 private:
  std::uint64_t size_, rows_, columns_;  // rows_ · columns_ is `size_` or a little more
  RandomStream stream_;
};

}  // namespace lacuna
