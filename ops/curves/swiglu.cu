#include "ops/curves/swiglu_cuda.h"

#include "ops/cuda/elements.h"
#include "ops/formulas.h"

namespace lacuna::cuda {
namespace {

/// Calls `f(row, column)` for the eight elements of a row that this thread has.
template <class K, class F>
LACUNA_DEVICE inline void for_eight(const Block<K>& block, std::int64_t rows, std::int64_t width, const F& f) {
  const std::int64_t chunks = (width + 7) / 8, row = block.global_thread() / chunks;
  if (row < rows) f(row, block.global_thread() % chunks * 8);
}
std::int64_t blocks_of(std::int64_t rows, std::int64_t width) { return divide_up(rows * divide_up(width, 8), 256); }

template <class T>
struct Forward {
  static constexpr int threads = 256;
  Kept<T> x;
  Written<T> y;
  std::int64_t rows, width;
  LACUNA_DEVICE void operator()(const Block<Forward>& block) const {
    for_eight(block, rows, width, [&](std::int64_t row, std::int64_t c) {
      const Eight a = x.at_row(2 * row, width, c), b = x.at_row(2 * row + 1, width, c);
      Eight out;
#pragma unroll
      for (int i = 0; i < 8; ++i) out[i] = formula::Silu{}(a[i]) * b[i];
      y.set_row(row, width, c, out);
    });
  }
};

template <class T, class Read>
struct Backward {
  static constexpr int threads = 256;
  Read x;
  Kept<T> dy;
  Written<T> dx;
  std::int64_t rows, width;
  LACUNA_DEVICE void operator()(const Block<Backward>& block) const {
    for_eight(block, rows, width, [&](std::int64_t row, std::int64_t c) {
      const Eight a = x.at_row(2 * row, width, c), b = x.at_row(2 * row + 1, width, c), d = dy.at_row(row, width, c);
      Eight da, db;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        da[i] = formula::SiluBackward{}(d[i] * b[i], a[i]);
        db[i] = d[i] * formula::Silu{}(a[i]);
      }
      dx.set_row(2 * row, width, c, da);
      dx.set_row(2 * row + 1, width, c, db);
    });
  }
};

}  // namespace

void swiglu_forward(Stream stream, DType type, const SwiGluForward& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, blocks_of(what.rows, what.width),
        Forward<T>{.x = {what.x, 2 * what.rows * what.width},
                   .y = {what.y, what.rows * what.width},
                   .rows = what.rows,
                   .width = what.width});
  });
}

void swiglu_backward(Stream stream, DType type, const SwiGluBackward& what) {
  const std::int64_t count = what.rows * what.width;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    with_saved_values<T>(what.x, 2 * count, [&]<class Read>(const Read& x) {
      run(stream, blocks_of(what.rows, what.width),
          Backward<T, Read>{
              .x = x, .dy = {what.dy, count}, .dx = {what.dx, 2 * count}, .rows = what.rows, .width = what.width});
    });
  });
}

}  // namespace lacuna::cuda
