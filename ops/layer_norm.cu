#include "ops/layer_norm_cuda.h"

#include "ops/cuda/row_kernels.h"

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
  bool has_statistics;

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
      const Eight w = weight.at(c), b = bias.at(c);
      Eight out;
#pragma unroll
      for (int i = 0; i < 8; ++i) out[i] = (values[i] - m) * r * w[i] + b[i];
      y.set_row(row, columns, c, out);
    });
  }
};

/// A block has rows of its own, a thread eight columns of each chunk. Sums for weight and bias stay in registers if a
/// row is one chunk, and in `partial` otherwise.
template <class T, class Read, int threads_>
struct Backward {
  static constexpr int threads = threads_;
  static constexpr std::int64_t chunk = threads * 8;
  struct Shared {
    float sums[2][2][threads / warp_size];  // two sets in turn, so that no row overtakes another
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
      float sum_g = 0, sum_gx = 0;
#pragma unroll 1
      for (int pass = 0; pass < (wants_dx ? 2 : 1); ++pass) {
        if (pass == 1) {
          sum_g = scale * joined_of_block(block, sum_g, block.shared().sums[set][0], Plus{});
          sum_gx = scale * joined_of_block(block, sum_gx, block.shared().sums[set][1], Plus{});
        }
        for (std::int64_t c = own; c < columns; c += chunk) {
          const Eight in = x.at_row(row, columns, c), d = dy.at_row(row, columns, c);
          const Eight w = wants_dx ? weight.at(c) : Eight{};
          if (pass == 1) {
            Eight out = add ? old.at_row(row, columns, c) : Eight{};
#pragma unroll
            for (int i = 0; i < 8; ++i) out[i] += r * (d[i] * w[i] - sum_g - (in[i] - m) * r * sum_gx);
            dx.set_row(row, columns, c, out);
            continue;
          }
          weight_sum = weight_total.at(c);
          bias_sum = bias_total.at(c);
          add_eight(in, d, w, m, r, weight_sum, bias_sum, sum_g, sum_gx);
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
    Eight next_in{}, next_d{};
    float next_m = 0, next_r = 0;
    const auto fetch = [&](std::int64_t row) {
      if (row >= rows || !reads) return;
      next_in = x.at_row(row, columns, own);
      next_d = dy.at_row(row, columns, own);
      next_m = mean[row];
      next_r = rstd[row];
    };
    fetch(begin);
    int set = 0;
    for (std::int64_t row = begin; row < rows; row += block.count(), set ^= 1) {
      const Eight in = next_in, d = next_d;
      const float m = next_m, r = next_r;
      Eight out = add && reads ? old.at_row(row, columns, own) : Eight{};
      fetch(row + block.count());
      float sum_g = 0, sum_gx = 0;
      if (reads) add_eight(in, d, w, m, r, weight_sum, bias_sum, sum_g, sum_gx);
      if (!wants_dx) continue;
      float(&sums)[2][threads / warp_size] = block.shared().sums[set];
#pragma unroll
      for (int step = warp_size / 2; step > 0; step /= 2) {
        sum_g += exchange(sum_g, step);
        sum_gx += exchange(sum_gx, step);
      }
      if constexpr (threads > warp_size) {
        if (block.lane() == 0) {
          sums[0][block.warp()] = sum_g;
          sums[1][block.warp()] = sum_gx;
        }
        block.sync();
        sum_g = sums[0][0];
        sum_gx = sums[1][0];
#pragma unroll
        for (int warp = 1; warp < threads / warp_size; ++warp) {
          sum_g += sums[0][warp];
          sum_gx += sums[1][warp];
        }
      }
      sum_g *= scale;
      sum_gx *= scale;
      if (!reads) continue;
#pragma unroll
      for (int i = 0; i < 8; ++i) out[i] += r * (d[i] * w[i] - sum_g - (in[i] - m) * r * sum_gx);
      dx.set_row(row, columns, own, out);
    }
  }
  /// Adds eight elements with x̂ = (x - mean) · rstd and g = dy · weight to the sums.
  LACUNA_DEVICE static void add_eight(const Eight& in, const Eight& d, const Eight& w, float m, float r,
                                      Eight& weight_sum, Eight& bias_sum, float& sum_g, float& sum_gx) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float normalised = (in[i] - m) * r, g = d[i] * w[i];
      weight_sum[i] += d[i] * normalised;
      bias_sum[i] += d[i];
      sum_g += g;
      sum_gx += g * normalised;
    }
  }
};

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
                          .has_statistics = what.has_statistics});
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
    with_row_threads(what.columns, [&]<int threads>(Threads<threads>) { forward<T, threads>(stream, what); });
  });
}

void layer_norm_backward(Stream stream, DType type, const LayerNormBackward& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    with_saved_values<T>(what.x, what.rows * what.columns, [&](const auto& x) {
      with_row_threads(what.columns, [&]<int threads>(Threads<threads>) { backward<T, threads>(stream, what, x); });
    });
  });
}

}  // namespace lacuna::cuda
