// Sequences whose offsets and lengths are copied to a device.
#pragma once

#include "core/tensor.h"
#include "ops/cuda/sequences.h"
#include "ops/shapes/sequences.h"

#include <algorithm>
#include <span>

namespace lacuna::cuda {

/// Holds the copies of sequences [first, last); kernels that are queued while it lives may read them. Offsets are those
/// of the whole batch.
class SequencesOnDevice {
 public:
  SequencesOnDevice(const Sequences& sequences, Device device)
      : SequencesOnDevice(sequences, 0, sequences.count(), device) {}
  SequencesOnDevice(const Sequences& sequences, std::int64_t first, std::int64_t last, Device device)
      : offsets_(copy(sequences.offsets() + first, last - first + 1, device)),
        lengths_(sequences.lengths_on_device().defined() ? sequences.lengths_on_device().leading(first, last)
                                                         : copy(sequences.lengths() + first, last - first, device)) {
    for (std::int64_t i = first; i < last; ++i)
      most_rows_ = std::max(most_rows_, sequences.end(i) - sequences.begin(i));
  }

  SequenceRows rows() const {
    return {offsets_.data<const std::int64_t>(), lengths_.data<const std::int64_t>(), lengths_.count()};
  }
  /// The most rows of a sequence, padding included.
  std::int64_t most_rows() const { return most_rows_; }

 private:
  static Tensor copy(const std::int64_t* from, std::int64_t count, Device device) {
    return Tensor::from(std::span(from, static_cast<std::size_t>(count)), {count}, device);
  }

  Tensor offsets_, lengths_;  // i64 [n + 1], [n]
  std::int64_t most_rows_ = 0;
};

}  // namespace lacuna::cuda
