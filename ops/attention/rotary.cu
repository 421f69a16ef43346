#include "ops/attention/rotary_cuda.h"

#include "core/block.h"

namespace lacuna::cuda {
namespace {

/// A thread has a pair of a head, or one of its values that stay.
template <class T>
struct Rotate {
  static constexpr int threads = 256;
  Rotation what;

  LACUNA_DEVICE void operator()(const Block<Rotate>& block) const {
    const std::int64_t units = what.width - what.n, i = block.global_thread() % units;
    const std::int64_t head = block.global_thread() / units, row = head / what.heads;
    if (row >= what.rows) return;
    const T* const x = static_cast<const T*>(what.x) + head * what.width;
    T* const y = static_cast<T*>(what.y) + head * what.width;
    if (i >= what.n) {
      y[what.n + i] = x[what.n + i];
      return;
    }
    const std::int64_t angle = what.positions[row] * what.n + i;
    const std::int64_t at_a = what.neighbours ? 2 * i : i, at_b = what.neighbours ? 2 * i + 1 : what.n + i;
    const float a = to_compute(x[at_a]), b = to_compute(x[at_b]);
    const float c = what.cos[angle], s = what.direction * what.sin[angle];
    y[at_a] = static_cast<T>(a * c - b * s);
    y[at_b] = static_cast<T>(b * c + a * s);
  }
};

}  // namespace

void rotate(Stream stream, DType type, const Rotation& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(what.rows * what.heads * (what.width - what.n), Rotate<T>::threads), Rotate<T>{what});
  });
}

}  // namespace lacuna::cuda
