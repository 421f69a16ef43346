#include "data/collate.h"

#include <algorithm>
#include <cstring>

namespace lacuna {
namespace {

/// Extents of `shape` with another axis 0 where the field varies.
Shape padded(const SampleField& field, std::int64_t length) {
  std::vector<std::int64_t> extents(field.shape.begin(), field.shape.end());
  if (field.varying_length) extents.front() = length;
  return Shape(extents);
}

Shape with_samples(std::int64_t samples, const Shape& shape) {
  std::vector<std::int64_t> extents(shape.begin(), shape.end());
  extents.insert(extents.begin(), samples);
  return Shape(extents);
}

const Tensor& checked(const Sample& sample, const SampleField& field) {
  const Tensor& tensor = sample[field.name];
  expect(!field.varying_length || tensor.shape().rank() > 0, "sample {}: `{}` varies in length and is a scalar",
         sample.index, field.name);
  const Shape expected = padded(field, tensor.shape().front());
  expect(tensor.dtype() == field.dtype && tensor.shape() == expected, "sample {}: expected `{}` {} {}, got {} {}",
         sample.index, field.name, name_of(field.dtype), expected, name_of(tensor.dtype()), tensor.shape());
  return tensor;
}

}  // namespace

Tensor batch_memory(const SampleField& field, std::int64_t samples, std::int64_t length, Device device) {
  return Tensor::empty(with_samples(samples, padded(field, length)), field.dtype, device, Purpose::data);
}

void copy_to_batch(const Sample& sample, const SampleField& field, const Tensor& place) {
  const Tensor& from = checked(sample, field);
  if (from.raw() != place.raw()) std::memcpy(place.raw(), from.raw(), static_cast<std::size_t>(from.bytes()));
}

Batch collate(std::span<const Sample> samples, const SampleFields& fields) {
  expect(!samples.empty(), "a batch needs at least one sample");
  Batch batch;
  batch.samples = std::ssize(samples);
  batch.epoch = samples.front().epoch;
  for (const SampleField& field : fields) {
    std::int64_t longest = 0;
    for (const Sample& sample : samples) longest = std::max(longest, checked(sample, field).shape().front());
    const Tensor all = batch_memory(field, batch.samples, longest);
    if (field.varying_length) all.fill(field.padding);
    for (std::int64_t i = 0; i < batch.samples; ++i)
      copy_to_batch(samples[static_cast<std::size_t>(i)], field, all.leading(i, i + 1));
    batch.set(field.name, all);
    if (!field.varying_length) continue;
    const Tensor lengths = Tensor::empty({batch.samples}, DType::i64, Device::cpu, Purpose::data);
    for (std::int64_t i = 0; i < batch.samples; ++i)
      lengths.data<std::int64_t>()[i] = samples[static_cast<std::size_t>(i)][field.name].shape().front();
    batch.set(field.name + "_lengths", lengths);
  }
  return batch;
}

}  // namespace lacuna
