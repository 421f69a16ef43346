#include "ops/norms/running_statistics_cuda.h"

#include "ops/cuda/map_kernels.h"
#include "ops/formulas.h"

namespace lacuna::cuda {

template void map<formula::Follow>(Stream, DType, std::int64_t, const formula::Follow&, const void*, const void*,
                                   void*);

namespace {

struct Increment {
  static constexpr int threads = 32;
  std::int64_t* counter;
  LACUNA_DEVICE void operator()(const Block<Increment>& block) const {
    if (block.thread() == 0) ++*counter;
  }
};

}  // namespace

void increment(Stream stream, std::int64_t* counter) { run(stream, 1, Increment{counter}); }

}  // namespace lacuna::cuda
