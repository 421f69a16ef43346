// Median of a few measurements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lacuna {

/// Median of `values`, at least one; the mean of the two middle ones if their number is even.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace lacuna
