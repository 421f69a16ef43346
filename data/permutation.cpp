#include "data/permutation.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>

namespace lacuna {

Permutation::Permutation(std::int64_t size, const RandomStream& stream)
    : size_(static_cast<std::uint64_t>(size)), stream_(stream) {
  expect(size > 0, "a permutation of {} entries was asked for", size);
  rows_ = static_cast<std::uint64_t>(std::ceil(std::sqrt(static_cast<double>(size))));
  columns_ = (size_ + rows_ - 1) / rows_;
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  constexpr std::uint64_t rounds = 8;
  const auto draw = [&](std::uint64_t round, std::uint64_t half) {
    const auto words = stream_.draw(round << 40 | half);
    return std::uint64_t{words[0]} << 32 | words[1];
  };
  auto value = static_cast<std::uint64_t>(position);
  do {
    std::uint64_t row = value / columns_, column = value % columns_;
    for (std::uint64_t round = 0; round < rounds; round += 2) {
      row = (row + draw(round, column) % rows_) % rows_;
      column = (column + draw(round + 1, row) % columns_) % columns_;
    }
    value = row * columns_ + column;
  } while (value >= size_);
  return static_cast<std::int64_t>(value);
}

}  // namespace lacuna
