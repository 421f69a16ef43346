#include "ops/losses/linear_cross_entropy_cuda.h"

#include "core/block.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/map_kernels.h"
#include "ops/losses/class_formulas.h"

namespace lacuna::cuda {
namespace {

/// One block.
struct DivideByCounted {
  static constexpr int threads = 256;
  struct Shared {
    std::int64_t counted[threads / warp_size];
  };
  PerCounted what;
  LACUNA_DEVICE void operator()(const Block<DivideByCounted>& block) const {
    std::int64_t counted = 0;
    for (std::int64_t i = block.thread(); i < what.count; i += threads)
      counted += what.labels[i] != what.ignored ? 1 : 0;
    counted = joined_of_block(block, counted, block.shared().counted, Plus{});
    if (block.thread() != 0) return;
    const double value = what.value != nullptr ? static_cast<double>(*what.value) : *what.value_in_f64;
    *what.to = static_cast<float>(value / static_cast<double>(counted > 1 ? counted : 1));
  }
};

template <class T>
struct ScaleBy {
  static constexpr int threads = 256;
  const float* dy;
  float factor;
  Kept<T> x;
  Written<T> y;
  std::int64_t count;
  LACUNA_DEVICE void operator()(const Block<ScaleBy>& block) const {
    const std::int64_t first = block.global_thread() * 8;
    if (first >= count) return;
    Eight eight = x.at(first);
    const float by = *dy * factor;
#pragma unroll
    for (int i = 0; i < 8; ++i) eight[i] *= by;
    y.set(first, eight);
  }
};

}  // namespace

void divide_by_counted(Stream stream, const PerCounted& what) { run(stream, 1, DivideByCounted{what}); }

void scale_by(Stream stream, DType type, const float* dy, float factor, std::int64_t count, const void* x, void* y) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(count, ScaleBy<T>::threads * 8), ScaleBy<T>{dy, factor, {x, count}, {y, count}, count});
  });
}

template void map(Stream, DType, std::int64_t, const formula::SoftCap&, const void*, void*);

}  // namespace lacuna::cuda
