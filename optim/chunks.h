// Kernels over all tensors of a model at once: a table in the device's memory has an entry for each tensor, and a block
// of threads computes one chunk of one of them.
#pragma once

#include "core/host_device.h"

#include <cstdint>

namespace lacuna::cuda {

/// Elements of a chunk: few enough that a model of five million parameters occupies every processor of a GPU.
inline constexpr std::int64_t chunk = 16384;
LACUNA_HOST_DEVICE inline std::int64_t chunks_of(std::int64_t elements) { return (elements + chunk - 1) / chunk; }

/// Entries of a table, in the device's memory. An Entry has `count`, the elements of its tensor, and `first_chunk`, the
/// number of chunks of the tensors before it.
template <class Entry>
struct Table {
  const Entry* entries;  // [count]
  std::int64_t count;
  std::int64_t chunks;  // of all tensors

  /// The entry of the tensor that has chunk `index`.
  LACUNA_DEVICE const Entry& of_chunk(std::int64_t index) const {
    std::int64_t first = 0, last = count - 1;
    while (first < last) {
      const std::int64_t middle = (first + last + 1) / 2;
      if (entries[middle].first_chunk <= index)
        first = middle;
      else
        last = middle - 1;
    }
    return entries[first];
  }
};

/// Elements [begin, end) of a tensor.
struct Chunk {
  std::int64_t begin, end;
  template <class Entry>
  LACUNA_HOST_DEVICE Chunk(const Entry& entry, std::int64_t index)
      : begin((index - entry.first_chunk) * chunk), end(begin + chunk < entry.count ? begin + chunk : entry.count) {}
};

}  // namespace lacuna::cuda
