// Sequences whose offsets and lengths are copied to a device.
#pragma once

#include "core/tensor.h"
#include "ops/cuda/sequences.h"
#include "ops/shapes/sequences.h"

#include <span>

namespace lacuna::cuda {

/// Holds the copies; kernels that are queued while it lives may read them.
class SequencesOnDevice {
 public:
  SequencesOnDevice(const Sequences& sequences, Device device)
      : offsets_(copy(sequences.offsets(), sequences.count() + 1, device)),
        lengths_(copy(sequences.lengths(), sequences.count(), device)) {}

  SequenceRows rows() const {
    return {offsets_.data<const std::int64_t>(), lengths_.data<const std::int64_t>(), lengths_.count()};
  }

 private:
  static Tensor copy(const std::int64_t* from, std::int64_t count, Device device) {
    return Tensor::from(std::span(from, static_cast<std::size_t>(count)), {count}, device);
  }

  Tensor offsets_, lengths_;  // i64 [N + 1], [N]
};

}  // namespace lacuna::cuda
