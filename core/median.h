// Median of a few measurements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lacuna {

/// The median of at least one value; for an even count the mean of the two middle values.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace lacuna
