// The formula of batch norm's statistics over ranks, for the CPU and for kernels.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace lacuna::formula {

struct JoinedStatistics {
  double mean, variance;
};

/// Mean and variance of one channel over all ranks. of_ranks: the mean of rank r at 2 · r · stride, its variance
/// `stride` behind it.
template <class T>
LACUNA_HOST_DEVICE JoinedStatistics joined_statistics(const T* of_ranks, std::int64_t ranks, std::int64_t stride) {
  double sum = 0, spread = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) sum += static_cast<double>(of_ranks[2 * rank * stride]);
  const double mean = sum / static_cast<double>(ranks);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const double offset = static_cast<double>(of_ranks[2 * rank * stride]) - mean;
    spread += static_cast<double>(of_ranks[(2 * rank + 1) * stride]) + offset * offset;
  }
  return {mean, spread / static_cast<double>(ranks)};
}

}  // namespace lacuna::formula
