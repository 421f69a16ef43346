#include "ops/shapes/sequences.h"

#include "core/error.h"

#include <algorithm>

namespace lacuna {

Sequences::Sequences(std::vector<std::int64_t> offsets, std::vector<std::int64_t> lengths)
    : offsets_(std::move(offsets)), lengths_(std::move(lengths)) {
  for (const std::int64_t length : lengths_) longest_ = std::max(longest_, length);
}

SequencesPtr Sequences::packed(std::span<const std::int64_t> offsets) {
  if (offsets.size() < 2 || offsets.front() != 0)
    reject("offsets: expected 0 and the end of each of at least one sequence, got {} numbers", offsets.size());
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    if (offsets[i + 1] <= offsets[i])
      reject("offsets: sequence {} of the batch has no token: it begins at {} and ends at {}", i, offsets[i],
             offsets[i + 1]);
    lengths.push_back(offsets[i + 1] - offsets[i]);
  }
  return SequencesPtr(new Sequences({offsets.begin(), offsets.end()}, std::move(lengths)));
}

SequencesPtr Sequences::padded(std::span<const std::int64_t> lengths, std::int64_t rows) {
  if (lengths.empty()) reject("key_lengths: expected at least one sequence");
  std::vector<std::int64_t> offsets{0};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 1 || lengths[i] > rows)
      reject("key_lengths: expected 1 to {} tokens of sequence {} of the batch, got {}", rows, i, lengths[i]);
    offsets.push_back(offsets.back() + rows);
  }
  std::shared_ptr<Sequences> sequences(new Sequences(std::move(offsets), {lengths.begin(), lengths.end()}));
  sequences->is_padded_ = true;
  return sequences;
}

SequencesPtr Sequences::padded(Tensor lengths, std::int64_t rows) {
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t i = 0; i < lengths.count(); ++i) offsets.push_back(offsets.back() + rows);
  std::shared_ptr<Sequences> sequences(
      new Sequences(std::move(offsets), std::vector<std::int64_t>(static_cast<std::size_t>(lengths.count()), rows)));
  sequences->is_padded_ = true;
  sequences->on_device_ = std::move(lengths);
  return sequences;
}

std::int64_t Sequences::at(std::int64_t row) const {
  return std::upper_bound(offsets_.begin(), offsets_.end(), row) - offsets_.begin() - 1;
}

}  // namespace lacuna
