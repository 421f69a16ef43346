#include "ops/arithmetic/arithmetic_cuda.h"
#include "ops/cuda/map_kernels.h"
#include "ops/formulas.h"

namespace lacuna::cuda {

template void map<formula::Add>(Stream, DType, std::int64_t, const formula::Add&, const void*, const void*, void*);
template void map<formula::Mul>(Stream, DType, std::int64_t, const formula::Mul&, const void*, const void*, void*);
template void map<formula::Scale>(Stream, DType, std::int64_t, const formula::Scale&, const void*, void*);

namespace {

/// Element e of x meets element (first + e) mod count of b.
template <class T>
struct AddRepeated {
  static constexpr int threads = 256;
  Written<T> out;
  Kept<T> x;
  const float* b;
  std::int64_t count, b_count, first;
  LACUNA_DEVICE void operator()(const Block<AddRepeated>& block) const {
    const std::int64_t begin = block.global_thread() * 8;
    if (begin >= count) return;
    Eight values = x.at(begin);
    std::int64_t place = (first + begin) % b_count;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      values[i] += b[place];
      if (++place == b_count) place = 0;
    }
    out.set(begin, values);
  }
};

}  // namespace

void add_rows(Stream stream, DType type, const AddRows& what) {
  const std::int64_t count = what.rows * what.width;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, blocks_of_map(count),
        AddRepeated<T>{.out = Written<T>(what.y, count),
                       .x = Kept<T>(what.x, count),
                       .b = what.b,
                       .count = count,
                       .b_count = what.b_rows * what.width,
                       .first = what.first_row % what.b_rows * what.width});
  });
}

}  // namespace lacuna::cuda
