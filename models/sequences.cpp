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

}  // namespace

SequencesPtr sequences_of(const Inputs& batch) {
  const Shape& shape = batch.at("tokens").shape();
  if (shape.rank() == 1) {
    if (!batch.contains("offsets")) reject("a batch of text: `tokens` {} needs `offsets`", shape);
    SequencesPtr sequences = Sequences::packed(host_values(batch, "offsets"));
    if (sequences->rows() != shape[0])
      reject("a batch of text: its offsets end at {}, and it has {} tokens", sequences->rows(), shape[0]);
    return sequences;
  }
  if (shape.rank() != 2) reject("a batch of text: expected `tokens` [T] with `offsets`, or [N, L], got {}", shape);
  if (!batch.contains("key_lengths"))
    return Sequences::padded(std::vector<std::int64_t>(static_cast<std::size_t>(shape[0]), shape[1]), shape[1]);
  const std::span<const std::int64_t> lengths = host_values(batch, "key_lengths");
  if (static_cast<std::int64_t>(lengths.size()) != shape[0])
    reject("a batch of text: {} key_lengths for `tokens` {}", lengths.size(), shape);
  return Sequences::padded(lengths, shape[1]);
}

}  // namespace lacuna
