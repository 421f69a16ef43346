// Rows of operands on the CPU, divided among threads.
//
// Kernels of elementwise ops and norms read quantized operands here: each thread decodes rows of its own into a scratch
// that stays in its cache. On `meta` the same scratch is allocated for the ledger, and nothing is called: such a kernel
// is registered for `meta` too (core/kernel.h).
#pragma once

#include "core/parallel.h"
#include "ops/operand.h"

#include <algorithm>
#include <cstdint>
#include <functional>

namespace lacuna {

/// How much is decoded or summed at a time; tests make it small.
struct RowBlockSizes {
  std::int64_t cache = 1024 * 1024;        // bytes that all threads decode together
  std::int64_t thread_cache = 256 * 1024;  // bytes that one thread decodes for itself
  std::int64_t serial_below = 16384;       // elements of a tensor that are not worth several threads
  // The same on a GPU; 0: the card decides.
  std::int64_t cuda_cache = 0;  // bytes that are decoded together
  std::int64_t cuda_sum = 0;    // bytes whose gradient of the weights is one product
};
RowBlockSizes& row_block_sizes();

/// Bytes that a GPU's L2 cache keeps until they are read again, beside the other operand: 16 or 32 MiB.
/// Less would not keep it busy, and one with a small cache goes through its memory anyway.
std::int64_t cached_at_once(Device device);
/// Bytes of an operand to decode at a time on any device, which are read again at once. Sums do not depend on it.
std::int64_t decoded_at_once(Device device);
/// Bytes of a layer's input, kept, decoded or computed again, whose gradient of the weights a GPU sums in one product:
/// about 1/256 of its memory, at least 32 MiB. Large cards take whole batches. Shape, type and card alone decide the
/// order of sums, so that bits do not depend on how the input is held.
std::int64_t summed_at_once(Device device);

/// Partition of rows over threads. Rows are cut into blocks; part i gets the i-th contiguous chunk of each block, in
/// multiples of `unit`. The partition depends on shape and thread count only, so sums over the rows of a part have the
/// same bits however the tensor is held.
struct RowPartition {
  std::int64_t count;      // rows
  std::int64_t block = 0;  // rows of a block; 0: all rows are one block
  std::int64_t unit = 1;   // rows
  int parts = threads();

  /// Rows to read at a time if an operand is read in blocks of `usual` rows: a multiple of `block`, or all.
  std::int64_t rows_at_once(std::int64_t usual) const {
    return std::min(count, block == 0 ? usual : std::max<std::int64_t>(1, usual / block) * block);
  }
  /// Rows of those that fit into a part's own share of the scratch.
  std::int64_t scratch_rows(std::int64_t usual) const { return rows_at_once(usual) / parts / unit * unit; }
  /// Calls `f(begin, end)` for part `index` of each block in rows [first, last); `first` is a multiple of `block`, and
  /// so is `last` unless it is `count`.
  template <class F>
  void for_row_blocks(std::int64_t first, std::int64_t last, std::int64_t index, const F& f) const {
    const std::int64_t step = block == 0 ? last - first : block;
    for (std::int64_t from = first; from < last; from += step) {
      const Range own = part(std::min(step, last - from), index, parts, unit);
      if (own.begin < own.end) f(from + own.begin, from + own.end);
    }
  }
};

/// Consecutive rows of an operand, decoded.
struct RowBlock {
  std::int64_t begin, end;  // rows
  int part;                 // of the RowPartition that contains them
  DType dtype;
  const std::byte* bytes;  // [end - begin, C] values

  template <class T>
  const T* values() const {
    expect(dtype_of<T>() == dtype, "rows of {} were read as {}", name_of(dtype), name_of(dtype_of<T>()));
    return reinterpret_cast<const T*>(bytes);
  }
};
using RowBlockKernel = std::function<void(const RowBlock&)>;

namespace detail {
/// If threads can decode the operand independently of each other: calls `f` for all rows of the partition, on the
/// thread that has the part, and returns true. Otherwise returns false and does nothing.
bool read_by_threads(const Operand& operand, const RowPartition& partition, const RowBlockKernel& f);
}  // namespace detail

/// Calls `f(RowBlock)` for blocks of the first `count` rows, in any order. A quantized operand is decoded by each
/// thread for itself, which calls `f` for what it decoded; otherwise `f` is called on the calling thread with as many
/// rows as `Operand::block_rows` says, and divides the work.
template <class F>
void for_each_row_block(const Operand& operand, std::int64_t count, const F& f) {
  if (detail::read_by_threads(operand, {.count = count}, f)) return;
  operand.for_blocks(count, [&](std::int64_t begin, std::int64_t end, const Tensor& values) {
    if (values.device() != Device::meta) f(RowBlock{begin, end, 0, values.dtype(), values.raw()});
  });
}

/// Calls `f(RowBlock)` for all rows of the partition, those of a part in order and on one thread. A block is a multiple
/// of `unit` rows, unless it ends a part's chunk.
template <class F>
void for_row_blocks(const Operand& operand, const RowPartition& partition, const F& f) {
  expect(partition.block > 0, "for_row_blocks: expected a partition with blocks of one row or more, got {}",
         partition.block);
  if (detail::read_by_threads(operand, partition, f)) return;
  const std::int64_t step = partition.rows_at_once(operand.block_rows());
  for (std::int64_t first = 0; first < partition.count; first += step) {
    const std::int64_t last = std::min(partition.count, first + step);
    const Tensor values = operand.rows(first, last);
    const std::int64_t row_bytes = values.shape().back() * size_of(values.dtype());
    if (values.device() == Device::meta) continue;
    parallel_tasks(partition.parts, [&](std::int64_t index, int) {
      partition.for_row_blocks(first, last, index, [&](std::int64_t begin, std::int64_t end) {
        f(RowBlock{begin, end, static_cast<int>(index), values.dtype(), values.raw() + (begin - first) * row_bytes});
      });
    });
  }
}

/// Computes rows [begin, begin + rows of `out`) of the op's output into `out`; about `block_rows` at a time if its
/// sources have to be decoded or rematerialized themselves, so that the scratch of a chain stays in cache. Operand
/// calls it.
void rematerialize_rows(const RematerializedForm& form, std::int64_t begin, std::int64_t block_rows, const Tensor& out);

}  // namespace lacuna
