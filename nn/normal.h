// Normally distributed random numbers for initial values.
#pragma once

#include "core/random.h"

#include <cstdint>

namespace lacuna::init {

/// Numbers 2 · begin to 2 · end of a stream of normal numbers with mean 0. Numbers beyond ±bound deviations are
/// redrawn.
struct Normals {
  RandomStream stream;
  double deviation, bound;

  /// Writes the numbers whose index is below `count` to `out` [count].
  template <class T>
  void fill(std::int64_t begin, std::int64_t end, std::int64_t count, T* out) const;
};

}  // namespace lacuna::init
