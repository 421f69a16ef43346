// A batch from samples.
#pragma once

#include "data/sample.h"

#include <span>

namespace lacuna {

/// Stacks, packs or pads the tensors of each field, as it says, and adds offsets and lengths. Every sample must have the
/// tensors that `fields` describes; those with the same offsets or lengths must be of one length in each sample. The
/// tensors are of Purpose::data.
Batch collate(std::span<const Sample> samples, const SampleFields& fields);

/// Memory for one field of a batch of as many samples as there are lengths; they mean nothing where it is stacked.
Tensor batch_memory(const SampleField& field, std::span<const std::int64_t> lengths, Device device = Device::cpu);
/// Adds the memory of a field to the batch, and its offsets or lengths where they differ.
void set_field(Batch& batch, const SampleField& field, Tensor memory, std::span<const std::int64_t> lengths);
/// Copies a sample's tensor to `place`, the first part of its row in the batch, unless it lies there already. Refuses
/// a tensor that is not as the field describes it.
void copy_to_batch(const Sample& sample, const SampleField& field, const Tensor& place);

}  // namespace lacuna
