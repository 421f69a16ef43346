#include "core/block.h"
#include "ops/cuda/elements.h"
#include "optim/clip_cuda.h"
#include "optim/formulas.h"

namespace lacuna::cuda {
namespace {

LACUNA_DEVICE inline void note_finite(double value, std::int32_t* finite) {
  if (finite != nullptr && !std::isfinite(value)) *finite = 0;
}

/// Σ x² of eight elements. Their sum is rounded to f32, whose relative error is below 8 · 2⁻²⁴ (5e-7): cards for
/// desktops have 1/64 of the rate in f64, and would be bound by it. Elements whose squares f32 does not hold are rare.
template <class T>
LACUNA_DEVICE double squares_of(const MeasuredTensor& of, std::int64_t first) {
  const Eight eight = Kept<T>(of.x, of.count).at(first);
  float sum = 0, largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    sum = fmaf(eight[i], eight[i], sum);
    largest = fmaxf(largest, fabsf(eight[i]));
  }
  if (largest == 0 ? sum == 0 : largest > 1e-15F && largest < 1e18F) return static_cast<double>(sum);
  double exact = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) exact += static_cast<double>(eight[i]) * static_cast<double>(eight[i]);
  return exact;
}

/// A block a chunk.
struct SquaresOfChunks {
  static constexpr int threads = 256;
  struct Shared {
    double sums[threads / warp_size];
  };
  SumsOfSquares what;
  LACUNA_DEVICE void operator()(const Block<SquaresOfChunks>& block) const {
    const MeasuredTensor& of = what.tensors.of_chunk(block.index());
    const Chunk part(of, block.index());
    double sum = 0;
    for (std::int64_t first = part.begin + block.thread() * 8; first < part.end; first += threads * 8)
      sum += of.type == DType::f32 ? squares_of<float>(of, first) : squares_of<bf16>(of, first);
    sum = joined_of_block(block, sum, block.shared().sums, Plus{});
    if (block.thread() == 0) what.partial[block.index()] = sum;
  }
};

/// A warp a tensor. There is one block, so that one thread writes `finite`.
struct SumsOfChunks {
  static constexpr int threads = 1024;
  struct Shared {
    int finite[threads / warp_size];
  };
  SumsOfSquares what;
  LACUNA_DEVICE void operator()(const Block<SumsOfChunks>& block) const {
    int finite = 1;
    for (std::int64_t i = block.warp(); i < what.tensors.count; i += threads / warp_size) {
      const MeasuredTensor& of = what.tensors.entries[i];
      const std::int64_t end = of.first_chunk + chunks_of(of.count);
      double sum = 0;
      for (std::int64_t k = of.first_chunk + block.lane(); k < end; k += warp_size) sum += what.partial[k];
      sum = sum_of_lanes(sum);
      if (block.lane() == 0) what.squares[of.index] = sum;
      finite = finite != 0 && std::isfinite(sum) ? 1 : 0;
    }
    finite = joined_of_block(block, finite, block.shared().finite, [](int a, int b) { return a & b; });
    if (block.thread() == 0 && finite == 0 && what.finite != nullptr) *what.finite = 0;
  }
};

template <class K>
LACUNA_DEVICE double sum_of(const Block<K>& block, const double* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = block.thread(); i < count; i += K::threads) sum += values[i];
  return joined_of_block(block, sum, block.shared().sums, Plus{});
}

struct Clip {
  static constexpr int threads = 256;
  struct Shared {
    double sums[threads / warp_size];
  };
  ClipGradients what;
  LACUNA_DEVICE void operator()(const Block<Clip>& block) const {
    const double sum = sum_of(block, what.squares, what.count);
    const double scale = what.scale == nullptr ? 1 : static_cast<double>(*what.scale);
    if (block.thread() == 0)
      *what.factor = static_cast<float>(formula::clip_factor(std::sqrt(sum), what.max_norm, scale));
  }
};

struct Add {
  static constexpr int threads = 32;
  AddLoss what;
  LACUNA_DEVICE void operator()(const Block<Add>& block) const {
    if (block.thread() != 0) return;
    const double loss = what.is_double ? *static_cast<const double*>(what.loss)
                                       : static_cast<double>(*static_cast<const float*>(what.loss));
    *what.total += (what.times == nullptr ? what.weight : what.weight * *what.times) * loss;
    note_finite(*what.total, what.finite);
  }
};

struct LookForNonfinite {
  static constexpr int threads = 256;
  const double* values;
  std::int64_t count;
  std::int32_t* finite;
  LACUNA_DEVICE void operator()(const Block<LookForNonfinite>& block) const {
    if (const std::int64_t i = block.global_thread(); i < count) note_finite(values[i], finite);
  }
};

}  // namespace

void sums_of_squares(Stream stream, const SumsOfSquares& what) {
  run(stream, what.tensors.chunks, SquaresOfChunks{what});
  run(stream, what.tensors.count == 0 ? 0 : 1, SumsOfChunks{what});
}

void clip_gradients(Stream stream, const ClipGradients& what) { run(stream, 1, Clip{what}); }

void add_loss(Stream stream, const AddLoss& what) { run(stream, 1, Add{what}); }

void look_for_nonfinite(Stream stream, const double* values, std::int64_t count, std::int32_t* finite) {
  run(stream, divide_up(count, LookForNonfinite::threads), LookForNonfinite{values, count, finite});
}

}  // namespace lacuna::cuda
