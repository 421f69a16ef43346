// Collates samples into a batch.
#pragma once

#include "data/sample.h"

#include <span>

namespace lacuna {

/// Stacks, packs or pads the tensors of each field as its `collation` says, adds offsets and lengths, and shifts edges
/// by the offsets of the rows that they number. Every sample must have the tensors that `fields` describes; within a
/// sample, fields that share offsets or lengths must have the same length. The tensors are of Purpose::data.
Batch collate(std::span<const Sample> samples, const SampleFields& fields);

/// Allocates one field of a batch of lengths.size() samples; the lengths themselves are ignored for a stacked field.
Tensor batch_memory(const SampleField& field, std::span<const std::int64_t> lengths, Device device = Device::cpu);
/// Adds a field's tensor to the batch, with its offsets or lengths if sample lengths vary.
void set_field(Batch& batch, const SampleField& field, Tensor memory, std::span<const std::int64_t> lengths);
/// Copies a sample's tensor to `place`, the start of its row in the batch, unless it is already stored there. Rejects a
/// tensor that does not match the field.
void copy_to_batch(const Sample& sample, const SampleField& field, const Tensor& place);

}  // namespace lacuna
