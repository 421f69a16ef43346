#include "optim/ema_cuda.h"

#include "ops/cuda/copy_units.h"
#include "ops/cuda/elements.h"

namespace lacuna::cuda {

namespace {

/// A block a chunk.
struct Average {
  static constexpr int threads = 256;
  formula::AverageStep formula;
  Table<AveragedValues> tensors;
  LACUNA_DEVICE void operator()(const Block<Average>& block) const {
    const AveragedValues& of = tensors.of_chunk(block.index());
    const Chunk part(of, block.index());
    const Written<float> averages(of.average, of.count);
    for (std::int64_t first = part.begin + block.thread() * 8; first < part.end; first += threads * 8) {
      const Eight value = Kept<float>(of.value, of.count).at(first);
      Eight average = averages.at(first);
#pragma unroll
      for (int i = 0; i < 8; ++i) average[i] = formula(average[i], value[i]);
      averages.set(first, average);
    }
  }
};

template <class Unit>
struct Swap {
  static constexpr int threads = 256;
  Unit *a, *b;
  std::int64_t count;
  LACUNA_DEVICE void operator()(const Block<Swap>& block) const {
    const std::int64_t i = block.global_thread();
    if (i >= count) return;
    const Unit of_a = a[i];
    a[i] = b[i];
    b[i] = of_a;
  }
};

}  // namespace

void average(Stream stream, const formula::AverageStep& formula, const Table<AveragedValues>& tensors) {
  run(stream, tensors.chunks, Average{formula, tensors});
}

void swap_contents(Stream stream, const SwapContents& what) {
  with_copy_unit(address(what.a) | address(what.b) | static_cast<std::uint64_t>(what.bytes),
                 [&]<class Unit>(Type<Unit>) {
                   const std::int64_t count = what.bytes / static_cast<std::int64_t>(sizeof(Unit));
                   run(stream, divide_up(count, Swap<Unit>::threads),
                       Swap<Unit>{static_cast<Unit*>(what.a), static_cast<Unit*>(what.b), count});
                 });
}

}  // namespace lacuna::cuda
