// Rows of a matrix for kernels that reduce them, for .cu files: a block has a row, a thread eight columns of each chunk
// of it.
#pragma once

#include "core/block.h"
#include "ops/cuda/elements.h"

namespace lacuna::cuda {

/// How many threads a block has that reads rows of `columns` elements: enough for one chunk, up to 512.
template <int n>
struct Threads {};
template <class F>
void with_row_threads(std::int64_t columns, const F& f) {
  if (columns <= 256) return f(Threads<32>{});
  if (columns <= 1024) return f(Threads<128>{});
  f(Threads<512>{});
}

/// The same for blocks that sum over rows and have several of them at a time on a multiprocessor.
template <class F>
void with_summing_threads(std::int64_t columns, const F& f) {
  if (columns > 256 && columns <= 768) return f(Threads<96>{});
  with_row_threads(columns, f);
}

/// A row as one thread of the block sees it. If the row is one chunk, its elements stay in registers; otherwise each
/// pass reads them again.
template <int threads, class Read>
class BlockRow {
 public:
  static constexpr std::int64_t chunk = threads * 8;

  LACUNA_DEVICE BlockRow(const Read& read, std::int64_t row, std::int64_t columns, int thread)
      : read_(read), row_(row), columns_(columns), first_(static_cast<std::int64_t>(thread) * 8) {
    if (first_ < columns) values_ = read.at_row(row, columns, first_);
  }

  /// Whether changes of elements stay.
  LACUNA_DEVICE bool stays() const { return columns_ <= chunk; }
  /// Calls `f(c, Eight)` for the elements from column c on, which may reach over the row's end.
  template <class F>
  LACUNA_DEVICE void each(const F& f) {
    for (std::int64_t c = first_; c < columns_; c += chunk) {
      if (columns_ > chunk) values_ = read_.at_row(row_, columns_, c);
      f(c, values_);
    }
  }
  /// Joins `term(element)` over this thread's elements, from `start` on.
  template <class Term, class Join>
  LACUNA_DEVICE float reduced(float start, const Join& join, const Term& term) {
    each([&](std::int64_t c, Eight& values) {
      if (c + 8 <= columns_) {
#pragma unroll
        for (int i = 0; i < 8; ++i) start = join(start, term(values[i]));
      } else {
        const auto left = static_cast<int>(columns_ - c);
#pragma unroll
        for (int i = 0; i < 8; ++i)
          if (i < left) start = join(start, term(values[i]));
      }
    });
    return start;
  }

 private:
  const Read& read_;
  std::int64_t row_, columns_, first_;
  Eight values_{};
};

}  // namespace lacuna::cuda
