#include "ops/curves/dropout_cuda.h"

#include "core/block.h"
#include "core/math.h"
#include "ops/cuda/divisor.h"

namespace lacuna::cuda {
namespace {

struct Place {
  std::int64_t sample, element;  // within the sample
};
LACUNA_DEVICE inline Place place_of(const Drop& what, const Divisor& by_sample, std::int64_t element) {
  const std::int64_t row = by_sample.quotient(element);
  if (what.offsets == nullptr) return {row, element - row * what.sample_size};
  std::int64_t low = 0, high = what.samples;  // the sample lies in [low, high)
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (what.offsets[middle] <= row ? low : high) = middle;
  }
  return {low, element - what.offsets[low] * what.sample_size};
}

/// A thread has `n` elements, which share their four draws: 4 where each four are of one sample, otherwise 1.
template <class T, int n>
struct DropElements {
  static constexpr int threads = 256;
  RandomStream random;
  Drop what;
  Divisor by_sample;

  LACUNA_DEVICE void operator()(const Block<DropElements>& block) const {
    const std::int64_t at = block.global_thread() * n;
    if (at >= what.count) return;
    const Place place = place_of(what, by_sample, what.first + at);
    const auto draws =
        random.now().draw_of_sample(static_cast<std::uint64_t>(place.sample),
                                    what.whole_samples ? 0 : static_cast<std::uint32_t>(place.element / 4));
    auto pack = load_pack<n>(static_cast<const T*>(what.x) + at);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const int number = n == 4 ? i : static_cast<int>(place.element % 4);
      const std::uint32_t draw = draws[static_cast<std::size_t>(what.whole_samples ? 0 : number)];
      pack[i] =
          static_cast<T>(draw < what.dropped_below ? 0.0F : math::rounded_product(to_compute(pack[i]), what.scale));
    }
    if (what.residual != nullptr) {
      const auto added = load_pack<n>(static_cast<const T*>(what.residual) + at);
#pragma unroll
      for (int i = 0; i < n; ++i) pack[i] = static_cast<T>(to_compute(pack[i]) + to_compute(added[i]));
    }
    store_pack(static_cast<T*>(what.y) + at, pack);
  }
};

}  // namespace

void drop(Stream stream, DType type, const RandomStream& random, const Drop& what) {
  const bool by_four = what.first % 4 == 0 && what.count % 4 == 0 && what.sample_size % 4 == 0 && is_aligned(what.x) &&
                       is_aligned(what.residual) && is_aligned(what.y);
  with_cuda_type(type, [&]<class T>(Type<T>) {
    const auto start = [&]<int n>(const DropElements<T, n>& kernel) {
      run(stream, divide_up(what.count, static_cast<std::int64_t>(n) * 256), kernel);
    };
    if (by_four)
      start(DropElements<T, 4>{random, what, Divisor(what.sample_size)});
    else
      start(DropElements<T, 1>{random, what, Divisor(what.sample_size)});
  });
}

}  // namespace lacuna::cuda
