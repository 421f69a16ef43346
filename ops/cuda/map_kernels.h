// Kernels of ops/cuda/map.h, for .cu files: eight elements a thread.
#pragma once

#include "core/block.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/map.h"
#include "ops/quantize/decode_map.h"

namespace lacuna::cuda {

template <class T, class Formula, class A>
struct MapOne {
  static constexpr int threads = 256;
  Written<T> out;
  std::int64_t count;
  Formula formula;
  A a;
  LACUNA_DEVICE void operator()(const Block<MapOne>& block) const {
    const std::int64_t first = block.global_thread() * 8;
    if (first >= count) return;
    Eight values = a.at(first);
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] = formula(values[i]);
    out.set(first, values);
  }
};

template <class T, class Formula, class A, class B>
struct MapTwo {
  static constexpr int threads = 256;
  Written<T> out;
  std::int64_t count;
  Formula formula;
  A a;
  B b;
  LACUNA_DEVICE void operator()(const Block<MapTwo>& block) const {
    const std::int64_t first = block.global_thread() * 8;
    if (first >= count) return;
    Eight values = a.at(first);
    const Eight others = b.at(first);
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] = formula(values[i], others[i]);
    out.set(first, values);
  }
};

/// The formula of each value, as map_codes calls it.
template <class Formula>
struct OfEach {
  Formula formula;
  LACUNA_DEVICE Eight operator()(Eight values, std::int64_t) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] = formula(values[i]);
    return values;
  }
};

inline std::int64_t blocks_of_map(std::int64_t count) { return divide_up(count, std::int64_t{256} * 8); }

template <class Formula>
void map(Stream stream, DType type, std::int64_t count, const Formula& formula, const void* x, void* y) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, blocks_of_map(count),
        MapOne<T, Formula, Kept<T>>{Written<T>(y, count), count, formula, Kept<T>(x, count)});
  });
}

template <class Formula>
void map(Stream stream, DType type, std::int64_t count, const Formula& formula, const void* a, const void* b, void* y) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, blocks_of_map(count),
        MapTwo<T, Formula, Kept<T>, Kept<T>>{Written<T>(y, count), count, formula, Kept<T>(a, count),
                                             Kept<T>(b, count)});
  });
}

template <class Formula>
void map_saved(Stream stream, DType type, std::int64_t count, const Formula& formula, const void* a,
               const SavedValues& saved, void* y) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    with_saved_values<T>(saved, count, [&]<class Read>(const Read& read) {
      run(stream, blocks_of_map(count),
          MapTwo<T, Formula, Kept<T>, Read>{Written<T>(y, count), count, formula, Kept<T>(a, count), read});
    });
  });
}

template <class Formula>
void map_coded(Stream stream, DType type, const CodedRange& x, const Formula& formula, void* y) {
  map_codes(stream, type, x, OfEach<Formula>{formula}, y);
}

}  // namespace lacuna::cuda
