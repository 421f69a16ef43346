// A random permutation of [0, size) computed entry by entry: it needs no storage, and a run can resume at any position
// of any epoch.
#pragma once

#include "core/random.h"

#include <cstdint>

namespace lacuna {

/// A bijection of [0, size) keyed by `stream`: a generalised Feistel cipher with cycle walking (Black and Rogaway,
/// "Ciphers with arbitrary finite domains", CT-RSA 2002, section 5).
class Permutation {
 public:
  Permutation(std::int64_t size, const RandomStream& stream);

  /// Entry `position` of the permutation.
  std::int64_t operator()(std::int64_t position) const;

 private:
  std::uint64_t size_, rows_, columns_;  // rows_ · columns_ is at least `size_`, and little more
  RandomStream stream_;
};

}  // namespace lacuna
