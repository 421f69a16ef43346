#include "ops/arithmetic/reduce_cuda.h"

#include "core/block.h"
#include "ops/cuda/block_sums.h"
#include "ops/cuda/elements.h"

namespace lacuna::cuda {
namespace {

template <class T>
struct SumRun {
  static constexpr int threads = 128;
  struct Shared {
    float sums[threads / warp_size];
  };
  Kept<T> x;
  double* partial;
  std::int64_t count, run;
  LACUNA_DEVICE void operator()(const Block<SumRun>& block) const {
    const std::int64_t begin = block.index() * run, end = begin + run < count ? begin + run : count;
    float sum = 0;
    for (std::int64_t first = begin + block.thread() * 8; first < end; first += threads * 8) {
      const Eight values = x.at(first);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += values[i];  // zeros from `count` on
    }
    sum = joined_of_block(block, sum, block.shared().sums, Plus{});
    if (block.thread() == 0) partial[block.index()] = static_cast<double>(sum);
  }
};

/// One block.
template <class T>
struct SumAll {
  static constexpr int threads = 256;
  struct Shared {
    double sums[threads / warp_size];
  };
  SumInOrder what;
  LACUNA_DEVICE void operator()(const Block<SumAll>& block) const {
    double sum = 0;
    for (std::int64_t i = block.thread(); i < what.count; i += threads)
      sum += what.in_f32 != nullptr ? static_cast<double>(what.in_f32[i]) : what.in_f64[i];
    sum = joined_of_block(block, sum, block.shared().sums, Plus{});
    if (block.thread() == 0) *static_cast<T*>(what.y) = static_cast<T>(static_cast<float>(what.factor * sum));
  }
};

template <class T>
struct AddOneByOne {
  static constexpr int threads = 128;
  AddToSums what;
  LACUNA_DEVICE void operator()(const Block<AddOneByOne>& block) const {
    const std::int64_t i = block.global_thread();
    if (i >= what.count) return;
    const double factor = what.times == nullptr ? what.factor : what.factor * *what.times;
    what.sums[i] += factor * static_cast<double>(to_compute(static_cast<const T*>(what.x)[i]));
  }
};

template <class T>
struct SpreadOne {
  static constexpr int threads = 256;
  const T* from;
  Written<T> to;
  std::int64_t count;
  double factor;
  LACUNA_DEVICE void operator()(const Block<SpreadOne>& block) const {
    const std::int64_t first = block.global_thread() * 8;
    if (first >= count) return;
    const auto value = static_cast<float>(factor * static_cast<double>(to_compute(*from)));
    Eight values;
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] = value;
    to.set(first, values);
  }
};

/// A warp reads 256 columns of a row. Block (b, s) of `blocks` · stripes has the rows b · groups + warp, and then every
/// blocks · groups-th one, of stripe s.
template <class T>
struct SumColumns {
  static constexpr int threads = 256, groups = threads / warp_size, stripe = warp_size * 8;
  struct Shared {
    float sums[groups][stripe];
  };
  Kept<T> x;
  Written<float> to;  // [blocks, columns], or [columns] to add to
  std::int64_t rows, columns, blocks;

  LACUNA_DEVICE void operator()(const Block<SumColumns>& block) const {
    const std::int64_t part = block.index() % blocks, c = block.index() / blocks * stripe + block.lane() * 8;
    Eight sum{};
    if (c < columns)
      for (std::int64_t row = part * groups + block.warp(); row < rows; row += blocks * groups) {
        const Eight values = x.at_row(row, columns, c);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i] += values[i];
      }
#pragma unroll
    for (int i = 0; i < 8; ++i) block.shared().sums[block.warp()][block.lane() * 8 + i] = sum[i];
    block.sync();
    if (block.warp() != 0 || c >= columns) return;
    Eight total = blocks == 1 ? to.at_row(0, columns, c) : Eight{};
    for (int group = 0; group < groups; ++group)
#pragma unroll
      for (int i = 0; i < 8; ++i) total[i] += block.shared().sums[group][block.lane() * 8 + i];
    to.set_row(part, columns, c, total);
  }
};

}  // namespace

void sum_runs(Stream stream, DType type, const SumRuns& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(what.count, what.run),
        SumRun<T>{.x = {what.x, what.count}, .partial = what.partial, .count = what.count, .run = what.run});
  });
}

void sum_in_order(Stream stream, DType type, const SumInOrder& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, 1, SumAll<T>{what}); });
}

void add_to_sums(Stream stream, DType type, const AddToSums& what) {
  const auto start = [&]<class T>(Type<T>) {
    run(stream, divide_up(what.count, AddOneByOne<T>::threads), AddOneByOne<T>{what});
  };
  if (type == DType::f64) return start(Type<double>{});
  with_cuda_type(type, start);
}

void spread(Stream stream, DType type, const Spread& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(what.count, SpreadOne<T>::threads * 8),
        SpreadOne<T>{.from = static_cast<const T*>(what.from),
                     .to = {what.to, what.count},
                     .count = what.count,
                     .factor = what.factor});
  });
}

std::int64_t column_sum_blocks(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t rows_of_block = 64, all = 1056;
  const std::int64_t stripes = divide_up(columns, SumColumns<float>::stripe);
  const std::int64_t most = stripes < all ? all / stripes : 1, wanted = divide_up(rows, rows_of_block);
  return wanted < 1 ? 1 : wanted < most ? wanted : most;
}

void add_column_sums(Stream stream, DType type, const ColumnSums& what) {
  const bool direct = what.blocks == 1;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, what.blocks * divide_up(what.columns, SumColumns<T>::stripe),
        SumColumns<T>{.x = {what.x, what.rows * what.columns},
                      .to = {direct ? what.to : what.partial, what.blocks * what.columns},
                      .rows = what.rows,
                      .columns = what.columns,
                      .blocks = what.blocks});
  });
  if (!direct)
    add_block_sums(stream, {.partial = what.partial,
                            .to = what.to,
                            .blocks = what.blocks,
                            .stride = what.columns,
                            .count = what.columns,
                            .add = true});
}

}  // namespace lacuna::cuda
