#include "core/block.h"
#include "ops/cuda/elements.h"
#include "optim/clip_cuda.h"
#include "optim/formulas.h"

namespace lacuna::cuda {
namespace {

LACUNA_DEVICE inline void note_finite(double value, std::int32_t* finite) {
  if (finite != nullptr && !std::isfinite(value)) *finite = 0;
}

/// A block a part.
template <class T>
struct SquaresOfParts {
  static constexpr int threads = 256;
  struct Shared {
    double sums[threads / warp_size];
  };
  Kept<T> x;
  std::int64_t count;
  double* partial;
  LACUNA_DEVICE void operator()(const Block<SquaresOfParts>& block) const {
    const std::int64_t per = square_part, begin = block.index() * per, end = begin + per < count ? begin + per : count;
    double sum = 0;
    for (std::int64_t first = begin + block.thread() * 8; first < end; first += threads * 8) {
      const Eight eight = x.at(first);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += static_cast<double>(eight[i]) * static_cast<double>(eight[i]);
    }
    sum = joined_of_block(block, sum, block.shared().sums, Plus{});
    if (block.thread() == 0) partial[block.index()] = sum;
  }
};

template <class K>
LACUNA_DEVICE double sum_of(const Block<K>& block, const double* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = block.thread(); i < count; i += K::threads) sum += values[i];
  return joined_of_block(block, sum, block.shared().sums, Plus{});
}

struct SumOfParts {
  static constexpr int threads = 256;
  struct Shared {
    double sums[threads / warp_size];
  };
  SumOfSquares what;
  std::int64_t parts;
  LACUNA_DEVICE void operator()(const Block<SumOfParts>& block) const {
    const double sum = sum_of(block, what.partial, parts);
    if (block.thread() != 0) return;
    *what.square = sum;
    note_finite(sum, what.finite);
  }
};

struct Clip {
  static constexpr int threads = 256;
  struct Shared {
    double sums[threads / warp_size];
  };
  ClipGradients what;
  LACUNA_DEVICE void operator()(const Block<Clip>& block) const {
    const double sum = sum_of(block, what.squares, what.count);
    if (block.thread() == 0) *what.factor = static_cast<float>(formula::clip_factor(std::sqrt(sum), what.max_norm));
  }
};

struct Add {
  static constexpr int threads = 32;
  AddLoss what;
  LACUNA_DEVICE void operator()(const Block<Add>& block) const {
    if (block.thread() != 0) return;
    const double loss = what.is_double ? *static_cast<const double*>(what.loss)
                                       : static_cast<double>(*static_cast<const float*>(what.loss));
    *what.total += what.weight * loss;
    note_finite(*what.total, what.finite);
  }
};

}  // namespace

void sum_of_squares(Stream stream, DType type, const SumOfSquares& what) {
  const std::int64_t parts = square_parts(what.count);
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, parts, SquaresOfParts<T>{Kept<T>(what.x, what.count), what.count, what.partial});
  });
  run(stream, 1, SumOfParts{what, parts});
}

void clip_gradients(Stream stream, const ClipGradients& what) { run(stream, 1, Clip{what}); }

void add_loss(Stream stream, const AddLoss& what) { run(stream, 1, Add{what}); }

}  // namespace lacuna::cuda
