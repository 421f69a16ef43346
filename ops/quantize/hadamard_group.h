// A group of up to 1024 values in shared memory and its Hadamard transform, for .cu files. Sums and butterflies are in
// the order of the CPU with AVX-512 (ops/quantize/hadamard_transform.h), so that codes are nearly always its codes.
#pragma once

#include "ops/cuda/codes.h"
#include "ops/quantize/hadamard_shape.h"

namespace lacuna::cuda {

inline constexpr int hadamard_threads = 128, longest_hadamard_group = 1024, vector_lanes = 16, sum_streams = 4;
inline constexpr int sums_at_once = sum_streams * vector_lanes;

/// Elements that accumulator `thread`, below `sums_at_once`, adds up: stream thread / 16, lane thread % 16.
struct SumOrder {
  std::int64_t whole;  // elements in rounds of all streams; the rest goes to stream 0
  std::int64_t part;   // 0, or a stream's elements lie together

  LACUNA_DEVICE static SumOrder rounds(std::int64_t count) { return {count / sums_at_once * sums_at_once, 0}; }
  LACUNA_DEVICE static SumOrder one_stream() { return {0, 0}; }
  LACUNA_DEVICE static SumOrder by_part(std::int64_t part) { return {0, part}; }
  template <class F>
  LACUNA_DEVICE void for_elements(int thread, std::int64_t count, const F& f) const {
    const int stream = thread / vector_lanes, lane = thread % vector_lanes;
    if (part > 0) {
      for (std::int64_t i = lane; i < part && stream * part + i < count; i += vector_lanes) f(stream * part + i);
      return;
    }
    for (std::int64_t i = thread; i < whole; i += sums_at_once) f(i);
    for (std::int64_t i = whole + lane; stream == 0 && i < count; i += vector_lanes) f(i);
  }
};

/// Sum of the accumulators of threads below `sums_at_once`; all threads get it. `scratch`: [sums_at_once] in shared
/// memory.
template <class K, class C>
LACUNA_DEVICE inline C total(const Block<K>& block, C own, C* scratch) {
  block.sync();
  if (block.thread() < sums_at_once) scratch[block.thread()] = own;
  block.sync();
  C sum{};
  if (block.warp() == 0) {
    const int lane = block.lane() % vector_lanes;
    sum = (scratch[lane] + scratch[lane + vector_lanes]) +
          (scratch[lane + 2 * vector_lanes] + scratch[lane + 3 * vector_lanes]);
    sum = sum_of_lanes<vector_lanes>(sum);
  }
  block.sync();
  if (block.thread() == 0) scratch[0] = sum;
  block.sync();
  return scratch[0];
}

template <class K, class C>
LACUNA_DEVICE inline void butterflies(const Block<K>& block, C* values, std::int64_t length, std::int64_t from,
                                      std::int64_t to) {
  for (std::int64_t by = from; by < to; by *= 2) {
    for (std::int64_t pair = block.thread(); pair < length / 2; pair += K::threads) {
      const std::int64_t place = pair & (by - 1), i = 2 * (pair - place) + place;  // `by`: a power of two
      const C a = values[i], b = values[i + by];
      values[i] = a + b;
      values[i + by] = a - b;
    }
    block.sync();
  }
}
/// Mixes the parts.
template <class K, class C>
LACUNA_DEVICE inline void mix_parts(const Block<K>& block, C* values, const quant::HadamardSize& shape) {
  const std::int64_t part = shape.part;
  if (shape.parts != 3) return butterflies(block, values, shape.parts * part, part, shape.parts * part);
  for (std::int64_t i = block.thread(); i < part; i += K::threads) {
    const C a = values[i], b = values[i + part], c = values[i + 2 * part];
    const C sum = (a + b + c) * static_cast<C>(2.0 / 3);
    values[i] = sum - a;
    values[i + part] = sum - b;
    values[i + 2 * part] = sum - c;
  }
  block.sync();
}

template <class C>
LACUNA_DEVICE inline C transform_factor(const quant::HadamardSize& shape) {
  const std::int64_t length = shape.parts * shape.part;
  return static_cast<C>(1 / std::sqrt(static_cast<double>(shape.parts == 3 ? shape.part : length)));
}

/// Multiplies values in place, between barriers, by the matrix of their number.
template <class K, class C>
LACUNA_DEVICE inline void transform_in_place(const Block<K>& block, C* values, const quant::HadamardSize& shape) {
  const std::int64_t length = shape.parts * shape.part;
  const C factor = transform_factor<C>(shape);
  for (std::int64_t i = block.thread(); i < length; i += K::threads) values[i] *= factor;
  block.sync();
  butterflies(block, values, length, 1, shape.part);
  mix_parts(block, values, shape);
}

/// Whether a matrix covers all values: then they come times `transform_factor`, otherwise as they are.
LACUNA_DEVICE inline bool is_covered(const quant::HadamardSize& shape, std::int64_t count) {
  return shape.parts * shape.part == count && shape.part >= vector_lanes;
}
/// Transforms `count` values in shared memory, after a barrier; ends with one. Its own inverse.
template <bool parts_first, class K, class C>
LACUNA_DEVICE inline void hadamard_transform(const Block<K>& block, C* values, std::int64_t count,
                                             const quant::HadamardSize& shape) {
  const std::int64_t length = shape.parts * shape.part;
  if (is_covered(shape, count)) {
    if (parts_first) mix_parts(block, values, shape);
    butterflies(block, values, length, 1, shape.part);
    if (!parts_first) mix_parts(block, values, shape);
    return;
  }
  transform_in_place(block, values, shape);
  if (length == count) return;
  transform_in_place(block, values + (count - length), shape);
  transform_in_place(block, values, shape);
}

/// Whether the random sign of element i of a group is a minus.
LACUNA_DEVICE inline bool is_flipped(const quant::SignWords& words, std::int64_t i) {
  return (quant::lowbias32(words.first + static_cast<std::uint32_t>(i / 32), words.mixed) >> (i % 32) & 1U) != 0;
}

}  // namespace lacuna::cuda
