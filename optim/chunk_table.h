// From entries on the host to a table of optim/chunks.h, for X_cuda.cpp files.
#pragma once

#include "core/backend.h"
#include "core/tensor.h"
#include "optim/chunks.h"

#include <cstddef>
#include <type_traits>
#include <vector>

namespace lacuna::cuda {

/// A workspace that holds a table.
template <class Entry>
class ChunkTable {
 public:
  /// Sets Entry::first_chunk of each.
  ChunkTable(std::vector<Entry> entries, Device device)
      : count_(std::ssize(entries)),
        memory_(
            Tensor::empty({count_ * static_cast<std::int64_t>(sizeof(Entry))}, DType::u8, device, Purpose::workspace)) {
    static_assert(std::is_trivially_copyable_v<Entry>);
    for (Entry& entry : entries) {
      entry.first_chunk = chunks_;
      chunks_ += chunks_of(entry.count);
    }
    if (count_ > 0)
      backend(device).copy_in(stream_of(device), memory_.raw(), entries.data(), entries.size() * sizeof(Entry));
  }
  Table<Entry> table() const { return {reinterpret_cast<const Entry*>(memory_.raw()), count_, chunks_}; }
  std::int64_t chunks() const { return chunks_; }

 private:
  std::int64_t count_, chunks_ = 0;
  Tensor memory_;  // u8 [count · sizeof(Entry)]
};

}  // namespace lacuna::cuda
