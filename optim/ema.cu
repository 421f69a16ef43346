#include "optim/ema_cuda.h"

#include "ops/cuda/copy_units.h"
#include "ops/cuda/map_kernels.h"
#include "optim/formulas.h"

namespace lacuna::cuda {

template void map<formula::AverageStep>(Stream, DType, std::int64_t, const formula::AverageStep&, const void*,
                                        const void*, void*);

namespace {

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

void swap_contents(Stream stream, const SwapContents& what) {
  with_copy_unit(address(what.a) | address(what.b) | static_cast<std::uint64_t>(what.bytes),
                 [&]<class Unit>(Type<Unit>) {
                   const std::int64_t count = what.bytes / static_cast<std::int64_t>(sizeof(Unit));
                   run(stream, divide_up(count, Swap<Unit>::threads),
                       Swap<Unit>{static_cast<Unit*>(what.a), static_cast<Unit*>(what.b), count});
                 });
}

}  // namespace lacuna::cuda
