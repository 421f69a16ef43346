#include "data/collate.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

/// Extents of `shape`, with another axis 0 if the field's lengths vary.
Shape with_length(const SampleField& field, std::int64_t length) {
  std::vector<std::int64_t> extents(field.shape.begin(), field.shape.end());
  if (field.collation != Collation::stacked) extents.front() = length;
  return Shape(extents);
}

Shape with_samples(std::int64_t samples, const Shape& shape) {
  std::vector<std::int64_t> extents(shape.begin(), shape.end());
  extents.insert(extents.begin(), samples);
  return Shape(extents);
}

const Tensor& checked(const Sample& sample, const SampleField& field) {
  const Tensor& tensor = sample[field.name];
  expect(field.collation == Collation::stacked || tensor.shape().rank() > 0,
         "sample {}: `{}` varies in length and is a scalar", sample.index, field.name);
  const Shape expected = with_length(field, tensor.shape().front());
  expect(tensor.dtype() == field.dtype && tensor.shape() == expected, "sample {}: expected `{}` {} {}, got {} {}",
         sample.index, field.name, name_of(field.dtype), expected, name_of(tensor.dtype()), tensor.shape());
  return tensor;
}

/// Offsets [N + 1] of packed samples, or the lengths [N] of padded ones.
Tensor lengths_tensor(Collation collation, std::span<const std::int64_t> lengths) {
  const auto samples = std::ssize(lengths);
  const bool packed = collation == Collation::packed;
  const Tensor tensor = Tensor::empty({samples + (packed ? 1 : 0)}, DType::i64, Device::cpu, Purpose::data);
  auto* const values = tensor.data<std::int64_t>();
  if (packed) {
    values[0] = 0;
    std::partial_sum(lengths.begin(), lengths.end(), values + 1);
  } else {
    std::ranges::copy(lengths, values);
  }
  return tensor;
}

}  // namespace

namespace {

/// The rows of each padded sample. There are 16 at most, so that few shapes come again and again.
std::int64_t padded_length(const SampleField& field, std::span<const std::int64_t> lengths) {
  if (field.collation != Collation::padded) return 0;
  constexpr std::int64_t shapes = 16;
  const std::int64_t most = field.shape.front(), step = std::max<std::int64_t>(1, (most + shapes - 1) / shapes);
  const std::int64_t longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
  return std::max(longest, std::min(most, (longest + step - 1) / step * step));
}

}  // namespace

Tensor batch_memory(const SampleField& field, std::span<const std::int64_t> lengths, Device device) {
  const auto samples = std::ssize(lengths);
  const Shape shape =
      field.collation == Collation::packed
          ? with_length(field, std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}))
          : with_samples(samples, with_length(field, padded_length(field, lengths)));
  return Tensor::empty(shape, field.dtype, device, Purpose::data);
}

void set_field(Batch& batch, const SampleField& field, Tensor memory, std::span<const std::int64_t> lengths) {
  const std::string of_lengths = lengths_of(field);
  if (!of_lengths.empty() && !batch.contains(of_lengths))
    batch.set(of_lengths, lengths_tensor(field.collation, lengths));
  if (field.kind == FieldKind::edges)
    batch.set_edges(field.name, std::move(memory), of_lengths, indexes_of(field));
  else if (field.collation == Collation::packed)
    batch.set_packed(field.name, std::move(memory), of_lengths);
  else
    batch.set(field.name, std::move(memory));
}

void copy_to_batch(const Sample& sample, const SampleField& field, const Tensor& place) {
  const Tensor& from = checked(sample, field);
  if (const auto* const values = from.data<const std::byte>(); values != place.data<const std::byte>())
    std::memcpy(place.raw(), values, static_cast<std::size_t>(from.bytes()));
}

namespace {

/// Shifts the edges of each sample by the first of the rows that they number.
template <class Index>
void shift_edges_of(std::span<const Sample> samples, const SampleField& field,
                    const NamedValues<std::vector<std::int64_t>>& lengths, const Tensor& edges) {
  const std::vector<std::int64_t>* const rows = lengths.find(indexes_of(field));
  expect(rows != nullptr, "`{}`: expected edges between the rows of a packed field of lengths `{}`, got {}", field.name,
         indexes_of(field), lengths.names());
  const auto* value = edges.data<const Index>();
  // Edges of one sample may be the data set's own, which a step may be reading.
  auto* shifted = samples.size() > 1 ? edges.data<Index>() : nullptr;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::int64_t count = samples[i][field.name].count();
    for (const auto* const end = value + count; value != end; ++value) {
      if (*value < 0 || *value >= (*rows)[i])
        reject_sample("sample {}: `{}` names row {}, expected 0 to {}", samples[i].index, field.name, *value,
                      (*rows)[i] - 1);
      if (shifted != nullptr) *shifted++ += static_cast<Index>(first);
    }
    first += (*rows)[i];
  }
  if (first > std::numeric_limits<Index>::max())
    reject("`{}` numbers {} rows, more than {} can: expected smaller batches", field.name, first, name_of(field.dtype));
}

void shift_edges(std::span<const Sample> samples, const SampleField& field,
                 const NamedValues<std::vector<std::int64_t>>& lengths, const Tensor& edges) {
  expect(field.collation == Collation::packed && (field.dtype == DType::i64 || field.dtype == DType::i32),
         "`{}`: expected edges i64 or i32 [E, ...], packed, got {} {}", field.name, name_of(field.dtype), field.shape);
  if (field.dtype == DType::i64)
    shift_edges_of<std::int64_t>(samples, field, lengths, edges);
  else
    shift_edges_of<std::int32_t>(samples, field, lengths, edges);
}

}  // namespace

Batch collate(std::span<const Sample> samples, const SampleFields& fields) {
  expect(!samples.empty(), "a batch needs at least one sample");
  Batch batch;
  batch.samples = std::ssize(samples);
  batch.epoch = samples.front().epoch;
  NamedValues<std::vector<std::int64_t>> lengths_by_name;
  const auto lengths_in = [&](const SampleField& field) {
    std::vector<std::int64_t> lengths;
    for (const Sample& sample : samples) lengths.push_back(checked(sample, field).shape().front());
    return lengths;
  };
  for (const SampleField& field : fields) {
    const std::vector<std::int64_t> lengths = lengths_in(field);
    if (const std::string name = lengths_of(field); !name.empty()) {
      if (const auto* const others = lengths_by_name.find(name))
        for (std::size_t i = 0; i < lengths.size(); ++i)
          expect(lengths[i] == (*others)[i], "sample {}: `{}` has {} rows, expected {}, as others of {} have",
                 samples[i].index, field.name, lengths[i], (*others)[i], name);
      else
        lengths_by_name.set(name, lengths);
    }
  }
  for (const SampleField& field : fields) {
    const std::vector<std::int64_t> lengths = lengths_in(field);
    // One sample is its own concatenation: a graph has the size of all data.
    const bool alone = samples.size() == 1 && field.collation == Collation::packed;
    const Tensor all = alone ? checked(samples.front(), field) : batch_memory(field, lengths);
    if (field.collation == Collation::padded) all.fill(field.padding);
    std::int64_t row = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const std::int64_t rows = field.collation == Collation::packed ? lengths[i] : 1;
      copy_to_batch(samples[i], field, all.leading(row, row + rows));
      row += rows;
    }
    if (field.kind == FieldKind::edges) shift_edges(samples, field, lengths_by_name, all);
    set_field(batch, field, all, lengths);
  }
  return batch;
}

}  // namespace lacuna
