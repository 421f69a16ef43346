#include "autograd/accumulate_cuda.h"

#include "ops/cuda/map_kernels.h"

namespace lacuna::cuda {

template void map<Difference>(Stream, DType, std::int64_t, const Difference&, const void*, const void*, void*);

namespace {

/// Each block sums one part.
template <class T>
struct SumSquares {
  static constexpr int threads = 256;
  struct Shared {
    double sums[threads / warp_size];
  };
  SquaredDifferences what;
  LACUNA_DEVICE void operator()(const Block<SumSquares>& block) const {
    const auto *const a = static_cast<const T*>(what.a), *const b = static_cast<const T*>(what.b);
    const std::int64_t end = what.bounds[block.index() + 1];
    double sum = 0;
    for (std::int64_t i = what.bounds[block.index()] + block.thread(); i < end; i += threads) {
      const auto difference =
          static_cast<double>(to_compute(a[i])) - (b == nullptr ? 0.0 : static_cast<double>(to_compute(b[i])));
      sum += difference * difference;
    }
    sum = joined_of_block(block, sum, block.shared().sums, Plus{});
    if (block.thread() == 0) what.sums[block.index()] = sum;
  }
};

/// Each thread handles the 128 elements of one draw.
template <class T>
struct Signs {
  static constexpr int threads = 64, at_once = 128;
  RandomStream random;
  Kept<T> a;
  Written<T> out;
  std::int64_t count;
  LACUNA_DEVICE void operator()(const Block<Signs>& block) const {
    const std::int64_t begin = block.global_thread() * at_once;
    if (begin >= count) return;
    const auto bits = random.now().draw(static_cast<std::uint64_t>(block.global_thread()));
#pragma unroll 1
    for (int first = 0; first < at_once && begin + first < count; first += 8) {
      Eight values = a.at(begin + first);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if ((bits[static_cast<std::size_t>(first / 32)] >> (first % 32 + i) & 1U) != 0) values[i] = -values[i];
      out.set(begin + first, values);
    }
  }
};

}  // namespace

void squared_differences(Stream stream, DType type, const SquaredDifferences& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, what.parts, SumSquares<T>{what}); });
}

void draw_signs(Stream stream, DType type, const RandomStream& random, const DrawSigns& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(what.count, static_cast<std::int64_t>(Signs<T>::threads) * Signs<T>::at_once),
        Signs<T>{.random = random, .a = {what.a, what.count}, .out = {what.out, what.count}, .count = what.count});
  });
}

}  // namespace lacuna::cuda
