#include "ops/norms/layer_norm_cuda.h"

#include "ops/cuda/row_kernels.h"
#include "ops/cuda/warp_rows.h"
#include "ops/quantize/decode_map.h"

namespace lacuna::cuda {
namespace {

/// A block a row.
template <class T, int threads_>
struct Forward {
  static constexpr int threads = threads_;
  struct Shared {
    float sums[2][threads / warp_size];
  };
  Kept<T> x;
  Kept<float> weight, bias;
  Written<T> y;
  float *mean, *rstd;
  std::int64_t columns;
  float eps;
  bool has_statistics, has_bias;

  LACUNA_DEVICE void operator()(const Block<Forward>& block) const {
    const std::int64_t row = block.index();
    BlockRow<threads, Kept<T>> in(x, row, columns, block.thread());
    float m = 0, r = 0;
    if (has_statistics) {
      m = mean[row];
      r = rstd[row];
    } else {
      const float scale = 1.0F / static_cast<float>(columns);
      m = in.reduced(0, Plus{}, [](float v) { return v; });
      m = scale * joined_of_block(block, m, block.shared().sums[0], Plus{});
      r = in.reduced(0, Plus{}, [&](float v) { return (v - m) * (v - m); });
      r = 1.0F / sqrtf(scale * joined_of_block(block, r, block.shared().sums[1], Plus{}) + eps);
      if (block.thread() == 0) {
        mean[row] = m;
        rstd[row] = r;
      }
    }
    in.each([&](std::int64_t c, const Eight& values) {
      const Eight w = weight.at(c), b = has_bias ? bias.at(c) : Eight{};
      Eight out;
#pragma unroll
      for (int i = 0; i < 8; ++i) out[i] = (values[i] - m) * r * w[i] + b[i];
      y.set_row(row, columns, c, out);
    });
  }
};

/// A warp a row.
template <class T, int eights>
struct WarpForward {
  static constexpr int threads = WarpRows<T, eights>::threads;
  WarpRows<T, eights> all;
  Kept<T> x;
  Kept<float> weight, bias;
  Written<T> y;
  float *mean, *rstd;
  float eps;
  bool has_statistics, has_bias;

  LACUNA_DEVICE void operator()(const Block<WarpForward>& block) const {
    const int lane = block.lane();
    const float scale = 1.0F / static_cast<float>(all.columns);
    Eight w[eights], b[eights]{};
    all.read(weight, lane, w);
    if (has_bias) all.read(bias, lane, b);
    all.each(block, x, [&](std::int64_t row, const Eight(&values)[eights]) {
      float m = 0, r = 0;
      if (has_statistics) {
        m = mean[row];
        r = rstd[row];
      } else {
        m = scale * all.sum(values, lane, [](float v) { return v; });
        r = all.sum(values, lane, [&](float v) { return (v - m) * (v - m); });
        r = 1.0F / sqrtf(scale * r + eps);
        if (lane == 0) {
          mean[row] = m;
          rstd[row] = r;
        }
      }
#pragma unroll
      for (int k = 0; k < eights; ++k) {
        if (all.column(lane, k) >= all.columns) continue;
        Eight out;
#pragma unroll
        for (int i = 0; i < 8; ++i) out[i] = (values[k][i] - m) * r * w[k][i] + b[k][i];
        y.set_row(row, all.columns, all.column(lane, k), out);
      }
    });
  }
};

/// y from x and the statistics, for map_codes.
struct LayerNormMap {
  Kept<float> weight, bias;
  const float *mean, *rstd;
  Divisor columns;  // a multiple of 8
  bool has_bias;

  LACUNA_DEVICE Eight operator()(Eight values, std::int64_t element) const {
    const std::int64_t row = columns.quotient(element), c = columns.remainder(element);
    const float m = mean[row], r = rstd[row];
    const Eight w = weight.at(c), b = has_bias ? bias.at(c) : Eight{};
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] = (values[i] - m) * r * w[i] + b[i];
    return values;
  }
};

/// Sums of a row: Σ g and Σ g · x̂, with g = dy · weight.
struct RowSums {
  float g, gx;
  LACUNA_DEVICE RowSums operator+(const RowSums& other) const { return {g + other.g, gx + other.gx}; }
};

/// A block has rows of its own, a thread eight columns of each chunk. Sums for weight and bias stay in registers if a
/// row is one chunk, and in `partial` otherwise.
template <class T, class Read, int threads_>
struct Backward {
  static constexpr int threads = threads_;
  static constexpr std::int64_t chunk = threads * 8;
  struct Shared {
    RowSums sums[2][threads / warp_size];  // two sets in turn, so that no row overtakes another
  };
  Read x;
  Kept<T> dy, old;
  Kept<float> weight;
  Written<T> dx;
  const float *mean, *rstd;
  float* partial;
  std::int64_t first_row, rows, columns;
  bool wants_dx, add;

  LACUNA_DEVICE void operator()(const Block<Backward>& block) const {
    const Written<float> weight_total(partial + block.index() * 2 * columns, columns);
    const Written<float> bias_total(partial + (block.index() * 2 + 1) * columns, columns);
    const bool in_registers = columns <= chunk;
    const std::int64_t own = block.thread() * 8;
    Eight weight_sum = weight_total.at(own), bias_sum = bias_total.at(own);
    const std::int64_t begin = (block.index() - first_row % block.count() + block.count()) % block.count();
    if (in_registers) {
      sum_rows(block, begin, weight_sum, bias_sum);
      if (own >= columns) return;
      weight_total.set(own, weight_sum);
      bias_total.set(own, bias_sum);
      return;
    }
    const float scale = 1.0F / static_cast<float>(columns);
    int set = 0;
    for (std::int64_t row = begin; row < rows; row += block.count(), set ^= 1) {
      const float m = mean[row], r = rstd[row];
      RowSums sums{0, 0};
#pragma unroll 1
      for (int pass = 0; pass < (wants_dx ? 2 : 1); ++pass) {
        if (pass == 1) sums = joined_of_block(block, sums, block.shared().sums[set], Plus{});
        for (std::int64_t c = own; c < columns; c += chunk) {
          const Eight in = x.at_row(row, columns, c), d = dy.at_row(row, columns, c);
          const Eight w = wants_dx ? weight.at(c) : Eight{};
          if (pass == 1) {
            Eight out = add ? old.at_row(row, columns, c) : Eight{};
#pragma unroll
            for (int i = 0; i < 8; ++i)
              out[i] += r * (d[i] * w[i] - scale * sums.g - (in[i] - m) * r * (scale * sums.gx));
            dx.set_row(row, columns, c, out);
            continue;
          }
          weight_sum = weight_total.at(c);
          bias_sum = bias_total.at(c);
          add_eight(in, d, w, m, r, weight_sum, bias_sum, sums);
          weight_total.set(c, weight_sum);
          bias_total.set(c, bias_sum);
        }
      }
    }
  }

 private:
  /// Rows that are one chunk. The next row is read while the sums of one are joined.
  LACUNA_DEVICE void sum_rows(const Block<Backward>& block, std::int64_t begin, Eight& weight_sum,
                              Eight& bias_sum) const {
    const std::int64_t own = block.thread() * 8;
    const bool reads = own < columns;
    const float scale = 1.0F / static_cast<float>(columns);
    const Eight w = wants_dx && reads ? weight.at(own) : Eight{};
    typename Read::Raw next_in{};
    RawEight<T> next_d{};
    float next_m = 0, next_r = 0;
    const auto fetch = [&](std::int64_t row) {
      if (row >= rows || !reads) return;
      next_in = x.raw_at_row(row, columns, own);
      next_d = dy.raw_at_row(row, columns, own);
      next_m = mean[row];
      next_r = rstd[row];
    };
    fetch(begin);
    int set = 0;
    for (std::int64_t row = begin; row < rows; row += block.count(), set ^= 1) {
      const Eight in = next_in.values(), d = next_d.values();
      const float m = next_m, r = next_r;
      Eight out = add && reads ? old.at_row(row, columns, own) : Eight{};
      fetch(row + block.count());
      RowSums sums{0, 0};
      if (reads) add_eight(in, d, w, m, r, weight_sum, bias_sum, sums);
      if (!wants_dx) continue;
      sums = joined_of_block(block, sums, block.shared().sums[set], Plus{});
      const float sum_g = scale * sums.g, sum_gx = scale * sums.gx;
      if (!reads) continue;
#pragma unroll
      for (int i = 0; i < 8; ++i) out[i] += r * (d[i] * w[i] - sum_g - (in[i] - m) * r * sum_gx);
      dx.set_row(row, columns, own, out);
    }
  }
  /// Adds eight elements with x̂ = (x - mean) · rstd and g = dy · weight to the sums.
  LACUNA_DEVICE static void add_eight(const Eight& in, const Eight& d, const Eight& w, float m, float r,
                                      Eight& weight_sum, Eight& bias_sum, RowSums& sums) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float normalised = (in[i] - m) * r, g = d[i] * w[i];
      weight_sum[i] += d[i] * normalised;
      bias_sum[i] += d[i];
      sums.g += g;
      sums.gx += g * normalised;
    }
  }
};

template <class T, int eights>
void warp_forward(Stream stream, const LayerNormForward& what) {
  const std::int64_t count = what.rows * what.columns;
  const WarpRows<T, eights> all{what.rows, what.columns};
  run(stream, all.blocks(),
      WarpForward<T, eights>{.all = all,
                             .x = {what.x, count},
                             .weight = {what.weight, what.columns},
                             .bias = {what.bias, what.columns},
                             .y = {what.y, count},
                             .mean = what.mean,
                             .rstd = what.rstd,
                             .eps = what.eps,
                             .has_statistics = what.has_statistics,
                             .has_bias = what.bias != nullptr});
}

template <class T, int threads>
void forward(Stream stream, const LayerNormForward& what) {
  const std::int64_t count = what.rows * what.columns;
  run(stream, what.rows,
      Forward<T, threads>{.x = {what.x, count},
                          .weight = {what.weight, what.columns},
                          .bias = {what.bias, what.columns},
                          .y = {what.y, count},
                          .mean = what.mean,
                          .rstd = what.rstd,
                          .columns = what.columns,
                          .eps = what.eps,
                          .has_statistics = what.has_statistics,
                          .has_bias = what.bias != nullptr});
}

template <class T, int threads, class Read>
void backward(Stream stream, const LayerNormBackward& what, const Read& x) {
  const std::int64_t count = what.rows * what.columns;
  run(stream, what.blocks,
      Backward<T, Read, threads>{.x = x,
                                 .dy = {what.dy, count},
                                 .old = {what.dx, count},
                                 .weight = {what.weight, what.columns},
                                 .dx = {what.dx, count},
                                 .mean = what.mean,
                                 .rstd = what.rstd,
                                 .partial = what.partial,
                                 .first_row = what.first_row,
                                 .rows = what.rows,
                                 .columns = what.columns,
                                 .wants_dx = what.dx != nullptr,
                                 .add = what.add});
}

}  // namespace

void layer_norm_forward(Stream stream, DType type, const LayerNormForward& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    if (fits_warp_row(what.columns))
      return with_warp_row(what.columns, [&]<int n>(Eights<n>) { warp_forward<T, n>(stream, what); });
    with_row_threads(what.columns, [&]<int threads>(Threads<threads>) { forward<T, threads>(stream, what); });
  });
}

void layer_norm_of_codes(Stream stream, DType type, const LayerNormForward& what, const CodedRange& x) {
  map_codes(stream, type, x,
            LayerNormMap{.weight = {what.weight, what.columns},
                         .bias = {what.bias, what.columns},
                         .mean = what.mean,
                         .rstd = what.rstd,
                         .columns = Divisor(what.columns),
                         .has_bias = what.bias != nullptr},
            what.y);
}

void layer_norm_backward(Stream stream, DType type, const LayerNormBackward& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    with_saved_values<T>(what.x, what.rows * what.columns, [&](const auto& x) {
      with_summing_threads(what.columns, [&]<int threads>(Threads<threads>) { backward<T, threads>(stream, what, x); });
    });
  });
}

}  // namespace lacuna::cuda
