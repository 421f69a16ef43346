#include "models/sequences.h"

#include "core/error.h"

#include <span>
#include <vector>

namespace lacuna {
namespace {

std::span<const std::int64_t> host_values(const Inputs& batch, std::string_view name) {
  const Tensor& tensor = batch.at(name).tensor();
  if (tensor.dtype() != DType::i64 || tensor.shape().rank() != 1)
    reject("a batch of text: expected `{}` in i64 with one axis, got {} {}", name, name_of(tensor.dtype()),
           tensor.shape());
  expect(tensor.device() == Device::cpu, "a batch of text: `{}` lies on the host, even if the model does not", name);
  return {tensor.data<const std::int64_t>(), static_cast<std::size_t>(tensor.count())};
}

/// The ends of the sequences, behind a 0: samples of several sequences have their lengths.
std::vector<std::int64_t> ends_of_sequences(const Inputs& batch) {
  const std::span<const std::int64_t> samples = host_values(batch, "offsets");
  if (!batch.contains("sequence_lengths")) return {samples.begin(), samples.end()};
  std::vector<std::int64_t> ends{0};
  for (const std::int64_t length : host_values(batch, "sequence_lengths")) ends.push_back(ends.back() + length);
  return ends;
}

}  // namespace

SequencesPtr sequences_of(const Inputs& batch) {
  const Shape& shape = batch.at("tokens").shape();
  if (shape.rank() == 1) {
    if (!batch.contains("offsets")) reject("a batch of text: `tokens` {} needs `offsets`", shape);
    const SequencesPtr sequences = Sequences::packed(ends_of_sequences(batch));
    if (sequences->rows() != shape[0])
      reject("a batch of text: its offsets end at {}, and it has {} tokens", sequences->rows(), shape[0]);
    return sequences;
  }
  if (shape.rank() != 2) reject("a batch of text: expected `tokens` [T] with `offsets`, or [N, L], got {}", shape);
  if (!batch.contains("key_lengths")) {
    std::vector<std::int64_t> offsets;
    for (std::int64_t i = 0; i <= shape[0]; ++i) offsets.push_back(i * shape[1]);
    return Sequences::packed(offsets);
  }
  if (const Tensor& there = batch.at("key_lengths").tensor(); there.device() != Device::cpu)
    return Sequences::padded(there, shape[1]);
  const std::span<const std::int64_t> lengths = host_values(batch, "key_lengths");
  if (static_cast<std::int64_t>(lengths.size()) != shape[0])
    reject("a batch of text: {} key_lengths for `tokens` {}", lengths.size(), shape);
  return Sequences::padded(lengths, shape[1]);
}

void check_lengths(const Batch& batch) {
  if (batch.contains("tokens") && batch.contains("key_lengths")) sequences_of(Inputs(batch));
}

}  // namespace lacuna
