#include "apps/train/calibrate.h"

#include "autograd/policies/adaptive.h"

#include <algorithm>

namespace lacuna::apps {
namespace {

/// A sixth of a batch at 8 bits takes less memory than all of it at two, though the batch is held besides, and tells as
/// much about what tensors are worth beside each other. Norms over the batch need two samples.
Batch part_of(const Batch& batch) {
  constexpr std::int64_t share = 6, least = 2;
  return batch.part(0, std::min(batch.samples, std::max(batch.samples / share, least)));
}

}  // namespace

bool calibrate(Training& training, const Batch& batch, MemoryPolicy& policy) {
  Adaptive* const adaptive = adaptive_of(policy);
  if (adaptive == nullptr || !adaptive->calibration_due()) return false;
  constexpr int held_bits = 8;
  const ErrorMeasure measure = training.error_measure();
  if (adaptive->by_draws())
    adaptive->calibrate(0, [&] {
      return calibrate_by_draws(
          policy, [&] { return training.loss(batch); }, measure);
    });
  else
    adaptive->calibrate(held_bits, [&] {
      return calibrate_in_backward(
          policy, [&] { return training.loss(part_of(batch)); }, measure);
    });
  return true;
}

}  // namespace lacuna::apps
