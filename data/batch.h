// A batch: named tensors whose first axis counts samples.
#pragma once

#include "core/named_values.h"
#include "core/tensor.h"

#include <cstdint>
#include <vector>

namespace lacuna {

using NamedTensors = NamedValues<Tensor>;

/// For images `images` f32 [N, H, W, C] and `labels` i64 [N].
struct Batch : NamedTensors {
  std::int64_t epoch = 0;
  std::int64_t first = 0;    // place of its first sample in the epoch's order
  std::int64_t samples = 0;  // N

  Batch() = default;
  /// Of tensors with as many samples each.
  Batch(std::initializer_list<Entry> tensors);

  /// Samples [begin, end) as views.
  Batch part(std::int64_t begin, std::int64_t end) const;
  /// Bytes of all tensors.
  std::int64_t bytes() const;
};

/// Cuts a batch into `parts` micro-batches of equal size: views of its tensors, or the batch itself where it is one. An
/// error where `parts` does not divide the number of samples.
std::vector<Batch> split_batch(Batch batch, std::int64_t parts);

}  // namespace lacuna
