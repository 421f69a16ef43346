// A batch from samples.
#pragma once

#include "data/sample.h"

#include <span>

namespace lacuna {

/// Stacks the tensors of each field to [N, ...]. A field of varying length is padded at the end of axis 0 to the
/// longest sample, and `<name>_lengths` i64 [N] holds the lengths. Every sample must have the tensors that `fields`
/// describes. The tensors are of Purpose::data.
Batch collate(std::span<const Sample> samples, const SampleFields& fields);

/// Memory for one field of a batch: [samples, ...], with `length` for axis 0 of a field of varying length.
Tensor batch_memory(const SampleField& field, std::int64_t samples, std::int64_t length, Device device = Device::cpu);
/// Copies a sample's tensor to `place`, the first part of its row in the batch, unless it lies there already. Refuses
/// a tensor that is not as the field describes it.
void copy_to_batch(const Sample& sample, const SampleField& field, const Tensor& place);

}  // namespace lacuna
