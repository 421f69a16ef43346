// Sums over rows for the gradients of a norm's parameters, on the CPU.
#pragma once

#include "core/dtype.h"
#include "core/tensor.h"
#include "ops/kernels/rowwise.h"
#include "ops/row_blocks.h"

#include <algorithm>
#include <vector>

namespace lacuna {

/// Rows divided among threads, of which each sums its own. It depends on the shape and the number of threads alone, so
/// that sums have the same bits whatever is computed beside. dy: [rows, C].
inline RowPartition partition_for_sums(const Tensor& dy) {
  constexpr std::int64_t most = 8, elements = 1 << 18;  // of the consecutive rows of one thread; of all threads' rows
  const std::int64_t rows = dy.rows(), n = dy.shape().back();
  const int parts = rows < serial_rows(n) ? 1 : threads();
  const std::int64_t together =
      std::clamp<std::int64_t>(elements / std::max<std::int64_t>(n * parts, 1), std::int64_t{1}, most);
  return {.count = rows, .block = together * parts, .unit = together, .parts = parts};
}

/// Sums [sums, n] over the rows of each part: of short runs in the compute type, and of all runs in double.
template <class C>
class ParameterSums {
 public:
  ParameterSums(int parts, std::int64_t sums, std::int64_t n, Device device)
      : n_(n),
        stride_(sums * n),
        runs_(Tensor::zeros({parts, sums, n}, dtype_of<C>(), device, Purpose::workspace)),
        totals_(Tensor::zeros({parts, sums, n}, DType::f64, device, Purpose::workspace)),
        counts_(static_cast<std::size_t>(parts)) {}

  /// For a part's next row, the sums [sums, n] to add it to.
  C* of_next_row(int part) {
    constexpr std::int64_t run_length = 64;
    C* const run = runs_.template data<C>() + part * stride_;
    Count& rows = counts_[static_cast<std::size_t>(part)];
    if (rows.value++ % run_length == 0) end_run(run, totals_.template data<double>() + part * stride_);
    return run;
  }
  /// to [n] = sum `index` over all parts, in order; nothing if `to` is undefined.
  void add_up(std::int64_t index, const Tensor& to) {
    if (!to.defined()) return;
    for (std::int64_t i = 0; i < n_; ++i) {
      double total = 0;
      for (std::int64_t at = index * n_ + i; at < runs_.count(); at += stride_)
        total += totals_.template data<double>()[at] + static_cast<double>(runs_.template data<C>()[at]);
      to.data<C>()[i] = static_cast<C>(total);
    }
  }

 private:
  struct alignas(64) Count {
    std::int64_t value = 0;
  };
  void end_run(C* run, double* total) const {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < stride_; ++i) total[i] += static_cast<double>(run[i]);
    std::fill_n(run, stride_, C{});
  }

  std::int64_t n_, stride_;
  Tensor runs_, totals_;  // [parts, sums, n]
  std::vector<Count> counts_;
};

}  // namespace lacuna
