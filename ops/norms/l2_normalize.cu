#include "ops/norms/l2_normalize_cuda.h"

#include "ops/cuda/row_kernels.h"

namespace lacuna::cuda {
namespace {

template <class T, int threads_>
struct Normalize {
  static constexpr int threads = threads_;
  struct Shared {
    float squares[threads / warp_size], dots[threads / warp_size];
  };
  Kept<T> x, dy;
  Written<T> to;
  std::int64_t columns;
  bool backward;

  LACUNA_DEVICE void operator()(const Block<Normalize>& block) const {
    const std::int64_t row = block.index();
    BlockRow<threads, Kept<T>> in(x, row, columns, block.thread());
    const float squares =
        joined_of_block(block, in.reduced(0, Plus{}, [](float v) { return v * v; }), block.shared().squares, Plus{});
    const float norm = sqrtf(squares), inverse = 1.0F / (norm > 1e-12F ? norm : 1e-12F);
    float dot = 0;  // y · dy; 0 where the norm is held at the least
    if (backward && norm >= 1e-12F) {
      in.each([&](std::int64_t c, const Eight& values) {
        const Eight gradient = dy.at_row(row, columns, c);
#pragma unroll
        for (int i = 0; i < 8; ++i)
          if (c + i < columns) dot += values[i] * inverse * gradient[i];
      });
      dot = joined_of_block(block, dot, block.shared().dots, Plus{});
    }
    in.each([&](std::int64_t c, const Eight& values) {
      const Eight gradient = backward ? dy.at_row(row, columns, c) : Eight{};
      Eight out;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float y = values[i] * inverse;
        out[i] = backward ? (gradient[i] - y * dot) * inverse : y;
      }
      to.set_row(row, columns, c, out);
    });
  }
};

}  // namespace

void l2_normalize(Stream stream, DType type, const L2Normalize& what) {
  const std::int64_t count = what.rows * what.columns;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    with_row_threads(what.columns, [&]<int threads>(Threads<threads>) {
      run(stream, what.rows,
          Normalize<T, threads>{.x = {what.x, count},
                                .dy = {what.dy, count},
                                .to = {what.to, count},
                                .columns = what.columns,
                                .backward = what.dy != nullptr});
    });
  });
}

}  // namespace lacuna::cuda
