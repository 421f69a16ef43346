#include "ops/norms/rms_norm_cuda.h"

#include "ops/cuda/row_kernels.h"
#include "ops/cuda/warp_rows.h"
#include "ops/quantize/decode_map.h"

namespace lacuna::cuda {
namespace {

/// A block a row.
template <class T, int threads_>
struct RmsForward {
  static constexpr int threads = threads_;
  struct Shared {
    float sums[threads / warp_size];
  };
  Kept<T> x;
  Kept<float> weight;
  Written<T> y;
  float* rstd;
  std::int64_t columns;
  float eps, offset;
  bool has_statistics;

  LACUNA_DEVICE void operator()(const Block<RmsForward>& block) const {
    const std::int64_t row = block.index();
    BlockRow<threads, Kept<T>> in(x, row, columns, block.thread());
    float r = 0;
    if (has_statistics) {
      r = rstd[row];
    } else {
      r = in.reduced(0, Plus{}, [](float v) { return v * v; });
      r = joined_of_block(block, r, block.shared().sums, Plus{});
      r = 1.0F / sqrtf(r / static_cast<float>(columns) + eps);
      if (block.thread() == 0) rstd[row] = r;
    }
    in.each([&](std::int64_t c, const Eight& values) {
      const Eight w = weight.at(c);
      Eight out;
#pragma unroll
      for (int i = 0; i < 8; ++i) out[i] = values[i] * r * (offset + w[i]);
      y.set_row(row, columns, c, out);
    });
  }
};

/// A warp a row.
template <class T, int eights>
struct WarpRmsForward {
  static constexpr int threads = WarpRows<T, eights>::threads;
  WarpRows<T, eights> all;
  Kept<T> x;
  Kept<float> weight;
  Written<T> y;
  float* rstd;
  float eps, offset;
  bool has_statistics;

  LACUNA_DEVICE void operator()(const Block<WarpRmsForward>& block) const {
    const int lane = block.lane();
    Eight w[eights];
    all.read(weight, lane, w);
    all.each(block, x, [&](std::int64_t row, const Eight(&values)[eights]) {
      float r = 0;
      if (has_statistics) {
        r = rstd[row];
      } else {
        r = all.sum(values, lane, [](float v) { return v * v; });
        r = 1.0F / sqrtf(r / static_cast<float>(all.columns) + eps);
        if (lane == 0) rstd[row] = r;
      }
#pragma unroll
      for (int k = 0; k < eights; ++k) {
        if (all.column(lane, k) >= all.columns) continue;
        Eight out;
#pragma unroll
        for (int i = 0; i < 8; ++i) out[i] = values[k][i] * r * (offset + w[k][i]);
        y.set_row(row, all.columns, all.column(lane, k), out);
      }
    });
  }
};

/// y from x and rstd, for map_codes.
struct RmsNormMap {
  Kept<float> weight;
  const float* rstd;
  std::int64_t columns;
  Divisor by_columns;
  float offset;

  LACUNA_DEVICE Eight operator()(Eight values, std::int64_t element) const {
    std::int64_t row = by_columns.quotient(element), c = element - row * columns;
    float r = rstd[row];
    if (columns % 8 == 0) {
      const Eight w = weight.at(c);
#pragma unroll
      for (int i = 0; i < 8; ++i) values[i] = values[i] * r * (offset + w[i]);
      return values;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i, ++c) {
      if (c == columns) {
        c = 0;
        r = rstd[++row];
      }
      values[i] = values[i] * r * (offset + weight.one(c));
    }
    return values;
  }
};

/// A block has rows of its own, a thread eight columns of each chunk. Sums for the weight stay in registers if a row is
/// one chunk, and in `partial` otherwise.
template <class T, class Read, int threads_>
struct RmsBackward {
  static constexpr int threads = threads_;
  static constexpr std::int64_t chunk = threads * 8;
  struct Shared {
    float sums[2][threads / warp_size];  // two sets in turn, so that no row overtakes another
  };
  Read x;
  Kept<T> dy, old;
  Kept<float> weight;
  Written<T> dx;
  const float* rstd;
  float* partial;
  std::int64_t first_row, rows, columns;
  float offset;
  bool wants_dx, add;

  LACUNA_DEVICE void operator()(const Block<RmsBackward>& block) const {
    const Written<float> total(partial == nullptr ? nullptr : partial + block.index() * columns, columns);
    const std::int64_t begin = (block.index() - first_row % block.count() + block.count()) % block.count();
    if (columns <= chunk) return sum_rows(block, begin, total);
    int set = 0;
    for (std::int64_t row = begin; row < rows; row += block.count(), set ^= 1) {
      const float r = rstd[row];
      float sum = 0;  // Σ g · x, with g = dy · (offset + weight)
      for (std::int64_t c = block.thread() * 8; c < columns; c += chunk) {
        const Eight in = x.at_row(row, columns, c), d = dy.at_row(row, columns, c);
        if (partial != nullptr) {
          Eight sums = total.at(c);
#pragma unroll
          for (int i = 0; i < 8; ++i) sums[i] += d[i] * (in[i] * r);
          total.set(c, sums);
        }
        if (!wants_dx) continue;
        const Eight w = weight.at(c);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += d[i] * (offset + w[i]) * in[i];
      }
      if (!wants_dx) continue;
      sum = joined_of_block(block, sum, block.shared().sums[set], Plus{});
      const float slope = r * r * r / static_cast<float>(columns) * sum;
      for (std::int64_t c = block.thread() * 8; c < columns; c += chunk) {
        const Eight in = x.at_row(row, columns, c), d = dy.at_row(row, columns, c), w = weight.at(c);
        Eight out = add ? old.at_row(row, columns, c) : Eight{};
#pragma unroll
        for (int i = 0; i < 8; ++i) out[i] += r * (d[i] * (offset + w[i])) - in[i] * slope;
        dx.set_row(row, columns, c, out);
      }
    }
  }

 private:
  /// Rows that are one chunk. The next row is read while the sums of one are joined.
  LACUNA_DEVICE void sum_rows(const Block<RmsBackward>& block, std::int64_t begin, const Written<float>& total) const {
    const std::int64_t own = block.thread() * 8;
    const bool reads = own < columns, sums_weight = partial != nullptr && reads;
    const Eight w = wants_dx && reads ? weight.at(own) : Eight{};
    Eight weight_sum = sums_weight ? total.at(own) : Eight{};
    typename Read::Raw next_in{};
    RawEight<T> next_d{};
    float next_r = 0;
    const auto fetch = [&](std::int64_t row) {
      if (row >= rows || !reads) return;
      next_in = x.raw_at_row(row, columns, own);
      next_d = dy.raw_at_row(row, columns, own);
      next_r = rstd[row];
    };
    fetch(begin);
    int set = 0;
    for (std::int64_t row = begin; row < rows; row += block.count(), set ^= 1) {
      const Eight in = next_in.values(), d = next_d.values();
      const float r = next_r;
      Eight out = add && reads ? old.at_row(row, columns, own) : Eight{};
      fetch(row + block.count());
      float sum = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        weight_sum[i] += d[i] * (in[i] * r);
        sum += d[i] * (offset + w[i]) * in[i];
      }
      if (!wants_dx) continue;
      sum = joined_of_block(block, reads ? sum : 0.0F, block.shared().sums[set], Plus{});
      if (!reads) continue;
      const float slope = r * r * r / static_cast<float>(columns) * sum;
#pragma unroll
      for (int i = 0; i < 8; ++i) out[i] += r * (d[i] * (offset + w[i])) - in[i] * slope;
      dx.set_row(row, columns, own, out);
    }
    if (sums_weight) total.set(own, weight_sum);
  }
};

}  // namespace

void rms_norm_forward(Stream stream, DType type, const RmsNormForward& what) {
  const std::int64_t count = what.rows * what.columns;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    if (fits_warp_row(what.columns))
      return with_warp_row(what.columns, [&]<int eights>(Eights<eights>) {
        const WarpRows<T, eights> all{what.rows, what.columns};
        run(stream, all.blocks(),
            WarpRmsForward<T, eights>{.all = all,
                                      .x = {what.x, count},
                                      .weight = {what.weight, what.columns},
                                      .y = {what.y, count},
                                      .rstd = what.rstd,
                                      .eps = what.eps,
                                      .offset = what.offset,
                                      .has_statistics = what.has_statistics});
      });
    with_row_threads(what.columns, [&]<int threads>(Threads<threads>) {
      run(stream, what.rows,
          RmsForward<T, threads>{.x = {what.x, count},
                                 .weight = {what.weight, what.columns},
                                 .y = {what.y, count},
                                 .rstd = what.rstd,
                                 .columns = what.columns,
                                 .eps = what.eps,
                                 .offset = what.offset,
                                 .has_statistics = what.has_statistics});
    });
  });
}

void rms_norm_of_codes(Stream stream, DType type, const RmsNormForward& what, const CodedRange& x) {
  map_codes(stream, type, x,
            RmsNormMap{.weight = {what.weight, what.columns},
                       .rstd = what.rstd,
                       .columns = what.columns,
                       .by_columns = Divisor(what.columns),
                       .offset = what.offset},
            what.y);
}

void rms_norm_backward(Stream stream, DType type, const RmsNormBackward& what) {
  const std::int64_t count = what.rows * what.columns;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    with_saved_values<T>(what.x, count, [&]<class Read>(const Read& x) {
      with_summing_threads(what.columns, [&]<int threads>(Threads<threads>) {
        run(stream, what.blocks,
            RmsBackward<T, Read, threads>{.x = x,
                                          .dy = {what.dy, count},
                                          .old = {what.dx, count},
                                          .weight = {what.weight, what.columns},
                                          .dx = {what.dx, count},
                                          .rstd = what.rstd,
                                          .partial = what.partial,
                                          .first_row = what.first_row,
                                          .rows = what.rows,
                                          .columns = what.columns,
                                          .offset = what.offset,
                                          .wants_dx = what.dx != nullptr,
                                          .add = what.add});
      });
    });
  });
}

}  // namespace lacuna::cuda
