#include "ops/curves/softmax_cuda.h"

#include "core/math.h"
#include "ops/cuda/row_kernels.h"

namespace lacuna::cuda {
namespace {

template <class T, int threads_>
struct Forward {
  static constexpr int threads = threads_;
  struct Shared {
    float largest[threads / warp_size], sums[threads / warp_size];
  };
  Kept<T> x;
  Written<T> y;
  std::int64_t columns;
  bool log;

  LACUNA_DEVICE void operator()(const Block<Forward>& block) const {
    const std::int64_t row = block.index();
    BlockRow<threads, Kept<T>> in(x, row, columns, block.thread());
    float largest = in.reduced(-INFINITY, Larger{}, [](float v) { return v; });
    largest = joined_of_block(block, largest, block.shared().largest, Larger{});
    const bool keeps = !log && in.stays();
    float sum = in.reduced(0, Plus{}, [&](float& v) {
      const float power = math::exp(v - largest);
      if (keeps) v = power;
      return power;
    });
    sum = joined_of_block(block, sum, block.shared().sums, Plus{});
    const float scale = 1.0F / sum, log_sum = logf(sum);
    in.each([&](std::int64_t c, const Eight& values) {
      Eight out;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (log)
          out[i] = values[i] - largest - log_sum;
        else
          out[i] = (keeps ? values[i] : math::exp(values[i] - largest)) * scale;
      }
      y.set_row(row, columns, c, out);
    });
  }
};

template <class T, int threads_>
struct Backward {
  static constexpr int threads = threads_;
  struct Shared {
    float sums[threads / warp_size];
  };
  Kept<T> y, dy;
  Written<T> dx;
  std::int64_t columns;
  bool log;

  LACUNA_DEVICE void operator()(const Block<Backward>& block) const {
    const std::int64_t row = block.index();
    BlockRow<threads, Kept<T>> gradient(dy, row, columns, block.thread());
    float sum = 0;  // of dy, or of dy · y
    gradient.each([&](std::int64_t c, const Eight& d) {
      const Eight out = log ? Eight{} : y.at_row(row, columns, c);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (c + i < columns) sum += log ? d[i] : d[i] * out[i];
    });
    sum = joined_of_block(block, sum, block.shared().sums, Plus{});
    gradient.each([&](std::int64_t c, const Eight& d) {
      const Eight out = y.at_row(row, columns, c);
      Eight result;
#pragma unroll
      for (int i = 0; i < 8; ++i) result[i] = log ? d[i] - math::exp(out[i]) * sum : out[i] * (d[i] - sum);
      dx.set_row(row, columns, c, result);
    });
  }
};

}  // namespace

void softmax_forward(Stream stream, DType type, const SoftmaxForward& what) {
  const std::int64_t count = what.rows * what.columns;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    with_row_threads(what.columns, [&]<int threads>(Threads<threads>) {
      run(stream, what.rows,
          Forward<T, threads>{.x = {what.x, count}, .y = {what.y, count}, .columns = what.columns, .log = what.log});
    });
  });
}

void softmax_backward(Stream stream, DType type, const SoftmaxBackward& what) {
  const std::int64_t count = what.rows * what.columns;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    with_row_threads(what.columns, [&]<int threads>(Threads<threads>) {
      run(stream, what.rows,
          Backward<T, threads>{.y = {what.y, count},
                               .dy = {what.dy, count},
                               .dx = {what.dx, count},
                               .columns = what.columns,
                               .log = what.log});
    });
  });
}

}  // namespace lacuna::cuda
