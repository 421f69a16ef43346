// Per-channel sums over rows, for batch normalization.
#pragma once

#include "core/parallel.h"
#include "core/tensor.h"
#include "ops/row_blocks.h"

#include <algorithm>
#include <cstdint>

namespace lacuna {

/// Rows of channels. Several short rows are treated as one long row, with per-channel vectors repeated to match, so
/// that inner loops are long enough.
struct ChannelRows {
  std::int64_t channels, repeats = 1;
  std::int64_t width, count;  // of the long rows

  ChannelRows(std::int64_t rows, std::int64_t channels_) : channels(channels_) {
    while (channels * repeats < 64 && rows % (2 * repeats) == 0) repeats *= 2;
    width = channels * repeats;
    count = rows / repeats;
  }
  explicit ChannelRows(const Tensor& x) : ChannelRows(x.rows(), x.shape().back()) {}

  /// Rows per block: few enough for accurate f32 sums and operands in L1.
  std::int64_t together() const { return std::max<std::int64_t>(16, 4096 / width / 4 * 4); }

  /// Calls `f(first row, rows, thread)` for blocks of `together` rows; each thread gets consecutive blocks.
  template <class F>
  void for_blocks_in_order(F&& f) const {
    const std::int64_t block = together();
    parallel_tasks((count + block - 1) / block, [&](std::int64_t task, int thread) {
      const std::int64_t first = task * block;
      f(first, std::min(block, count - first), thread);
    });
  }

  /// Partition of x over threads in backward, where x may have to be dequantized. Depends on the shape alone, so that
  /// sums have the same bits however x is stored.
  RowPartition partition() const {
    constexpr std::int64_t elements = 1 << 19;  // of a block: stays in cache
    const std::int64_t unit = together(), block = std::max<std::int64_t>(1, elements / width / unit) * unit;
    return {.count = count * repeats, .block = block * repeats, .unit = unit * repeats};
  }

  /// Repeats the first `channels` elements of a vector [width], in place.
  template <class S>
  [[gnu::noinline]] S* repeated(S* vector) const {
    for (std::int64_t i = channels; i < width; ++i) vector[i] = vector[i - channels];
    return vector;
  }
  template <class S>
  S* repeated(const S* from, S* to) const {
    std::copy_n(from, channels, to);
    return repeated(to);
  }
  /// Scratch [vectors, width].
  template <class S>
  Tensor scratch(std::int64_t vectors, Device device) const {
    return Tensor::empty({vectors, width}, dtype_of<S>(), device, Purpose::workspace);
  }
};

template <class S>
struct ChannelTerms {
  S first, second;
};

/// Sums of two terms per channel over rows, in f64: `add` for each block or `add_all`, then `finish`.
/// `terms.at(first row, rows, thread)` prepares a block and returns f(i, c) -> {first, second} for element i of the
/// block, which is in column c of its row. Bits depend on the shape and on which thread adds which blocks.
class ChannelSums {
 public:
  ChannelSums(const ChannelRows& rows, Device device)
      : rows_(rows),
        run_(Tensor::empty({threads(), 2, rows.width}, DType::f64, device, Purpose::workspace)),
        total_(Tensor::zeros({threads(), 2, rows.width}, DType::f64, device, Purpose::workspace)) {}

  /// All rows, on all threads.
  template <class S, class AllTerms>
  void add_all(const AllTerms& terms) const {
    rows_.for_blocks_in_order(
        [&](std::int64_t first, std::int64_t count, int thread) { add<S>(first, count, thread, terms); });
  }
  /// A block of rows, on the thread that owns it.
  template <class S, class AllTerms>
  void add(std::int64_t first, std::int64_t count, int thread, const AllTerms& terms) const {
    const std::int64_t n = rows_.width;
    S* const sums = reinterpret_cast<S*>(run_.data<double>() + thread * 2 * n);  // [2, width], allocated as f64
    const auto term = terms.at(first, count, thread);
    std::fill_n(sums, 2 * n, S{});
    std::int64_t row = 0;
    for (; row + 4 <= count; row += 4) add_rows<4>(sums, row, term);
    for (; row < count; ++row) add_rows<1>(sums, row, term);
    double* const total = total_.data<double>() + thread * 2 * n;  // [2, width]
#pragma omp simd
    for (std::int64_t i = 0; i < 2 * n; ++i) total[i] += static_cast<double>(sums[i]);
  }

  void finish() const {
    const std::int64_t n = rows_.width;
    double* const total = total_.data<double>();  // [threads, 2, width]
    for (int thread = 1; thread < threads(); ++thread)
      for (std::int64_t i = 0; i < 2 * n; ++i) total[i] += total[thread * 2 * n + i];
    for (std::int64_t half = 0; half < 2 * n; half += n)
      for (std::int64_t i = rows_.channels; i < n; ++i) total[half + i % rows_.channels] += total[half + i];
  }

  double first(std::int64_t channel) const { return total_.data<double>()[channel]; }
  double second(std::int64_t channel) const { return total_.data<double>()[rows_.width + channel]; }

 private:
  template <int rows, class S, class Term>
  void add_rows(S* sums, std::int64_t row, const Term& term) const {
    const std::int64_t n = rows_.width;
    S *const first = sums, *const second = sums + n;
#pragma omp simd
    for (std::int64_t c = 0; c < n; ++c) {
      S a = first[c], b = second[c];
      for (int r = 0; r < rows; ++r) {
        const ChannelTerms<S> t = term((row + r) * n + c, c);
        a += t.first;
        b += t.second;
      }
      first[c] = a;
      second[c] = b;
    }
  }

  ChannelRows rows_;
  Tensor run_, total_;
};

}  // namespace lacuna
