// The fast Walsh-Hadamard transform in few passes over memory; the first pass reads its input by a function, the last
// writes its output by another.
#pragma once

#include "ops/quantize/hadamard_shape.h"
#include "ops/quantize/simd.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace lacuna::quant {

template <std::size_t by, class C, std::size_t... i>
inline Lanes<C> butterfly(const Lanes<C>& all, std::index_sequence<i...>) {
  const Lanes<C> signs = {((i & by) != 0 ? C{-1} : C{1})...};
  return exchanged<by>(all) + all * signs;
}
/// Sums and differences of lanes i and i ^ by.
template <std::size_t by, class C>
inline Lanes<C> butterfly(const Lanes<C>& all) {
  return butterfly<by, C>(all, std::make_index_sequence<lanes>());
}
/// The butterflies of `by` and of all larger powers of two.
template <std::size_t by, class C>
inline Lanes<C> butterflies(const Lanes<C>& all) {
  const Lanes<C> next = butterfly<by, C>(all);
  if constexpr (2 * by < lanes)
    return butterflies<2 * by, C>(next);
  else
    return next;
}

/// Vectors that stay in 32 registers, or 16, beside what else is needed.
inline constexpr int max_vectors = vector_bytes == 64 ? 16 : 8;
/// Transforms one part of `vectors` vectors in registers. `take(i, factor)` returns the values from i on times the
/// factor; `give(stream, i, values)` receives the result.
template <int vectors, class C, class Take, class Give>
[[gnu::always_inline]] inline void transform_part(std::int64_t at, C factor, const Take& take, Give& give) {
  Lanes<C> all[vectors];
#pragma GCC unroll 16
  for (int i = 0; i < vectors; ++i) {
    all[i] = butterflies<1, C>(take(at + i * lanes, factor));
  }
#pragma GCC unroll 4
  for (int by = 1; by < vectors; by *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < vectors; ++i) {
      if ((i & by) != 0) continue;
      const Lanes<C> sum = all[i] + all[i + by];
      all[i + by] = all[i] - all[i + by];
      all[i] = sum;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < vectors; ++i) give(i % 4, at + i * lanes, all[i]);
}

/// The same of any number of vectors, in loops: a fraction of the code, and slower.
template <class C, class Take, class Give>
inline void transform_part_in_loops(int vectors, std::int64_t at, C factor, const Take& take, Give& give) {
  Lanes<C> all[max_vectors];
  for (int i = 0; i < vectors; ++i) all[i] = butterflies<1, C>(take(at + i * lanes, factor));
  for (int by = 1; by < vectors; by *= 2)
    for (int i = 0; i < vectors; ++i) {
      if ((i & by) != 0) continue;
      const Lanes<C> sum = all[i] + all[i + by];
      all[i + by] = all[i] - all[i + by];
      all[i] = sum;
    }
  for (int i = 0; i < vectors; ++i) give(i % 4, at + i * lanes, all[i]);
}

/// Calls `f` with `vectors`, 2^k up to `max`, as an integral constant.
template <int max = max_vectors, class F>
[[gnu::always_inline]] inline void with_vectors(std::int64_t vectors, const F& f) {
  if (vectors == max)
    f(std::integral_constant<int, max>{});
  else if constexpr (max > 1)
    with_vectors<max / 2>(vectors, f);
}

/// Transforms values in place whose parts are shorter than a vector.
template <class C>
inline void transform_few(C* values, const HadamardSize& shape) {
  const auto [part, parts] = shape;
  const C factor = static_cast<C>(1 / std::sqrt(static_cast<double>(part)));
  for (C* own = values; own < values + parts * part; own += part) {
    for (std::int64_t by = 1; by < part; by *= 2)
      for (std::int64_t i = 0; i < part; ++i) {
        if ((i & by) != 0) continue;
        const C sum = own[i] + own[i + by];
        own[i + by] = own[i] - own[i + by];
        own[i] = sum;
      }
    for (std::int64_t i = 0; i < part; ++i) own[i] *= factor;
  }
  if (parts == 3)
    for (std::int64_t i = 0; i < part; ++i) {
      const C sum = (values[i] + values[i + part] + values[i + 2 * part]) * static_cast<C>(2.0 / 3);
      for (C* own = values; own < values + 3 * part; own += part) own[i] = sum - own[i];
    }
}

/// Mixes four or two parts of `length` values each by H(4) or H(2), a vector at a time: `kept(index, i)` returns the
/// values from i on of a part, `give(index, i, values)` receives the result.
template <class C, class Kept, class Give>
[[gnu::always_inline]] inline void combine_parts(std::int64_t length, int parts, const Kept& kept, const Give& give) {
  if (parts == 4)
    for (std::int64_t i = 0; i < length; i += lanes) {
      const Lanes<C> a = kept(0, i), b = kept(1, i), c = kept(2, i), d = kept(3, i);
      give(0, i, (a + b) + (c + d));
      give(1, i, (a - b) + (c - d));
      give(2, i, (a + b) - (c + d));
      give(3, i, (a - b) - (c - d));
    }
  else
    for (std::int64_t i = 0; i < length; i += lanes) {
      const Lanes<C> a = kept(0, i), b = kept(1, i);
      give(0, i, a + b);
      give(1, i, a - b);
    }
}
/// Mixes three parts of `length` values each: 2/3 of their sum, minus each.
template <class C, class Kept, class Give>
[[gnu::always_inline]] inline void reflect_parts(std::int64_t length, const Kept& kept, const Give& give) {
  for (std::int64_t i = 0; i < length; i += lanes) {
    const Lanes<C> a = kept(0, i), b = kept(1, i), c = kept(2, i);
    const Lanes<C> sum = (a + b + c) * static_cast<C>(2.0 / 3);
    give(0, i, sum - a);
    give(1, i, sum - b);
    give(2, i, sum - c);
  }
}

/// Mixes the parts of a shape. `kept` and `give` as for combine_parts.
template <class C, class Kept, class Give>
[[gnu::always_inline]] inline void combine_all_parts(const HadamardSize& shape, const Kept& kept, const Give& give) {
  if (shape.parts == 3)
    reflect_parts<C>(shape.part, kept, give);
  else if (shape.parts > 1)
    combine_parts<C>(shape.part, shape.parts, kept, give);
}

/// The order of the passes. Memory that a pass reads line after line is prefetched, memory that it writes line after
/// line need not be fetched; access to all parts at once takes twice as long. So the slower memory, the source when
/// quantizing and the result when dequantizing, gets the pass in order.
enum class Passes : std::uint8_t { reads_in_order, writes_in_order };

/// Transforms parts * part values in vectors: `take(i, factor)` returns the values from i on times the factor;
/// `give(stream, i, values)` receives the result, with `stream` going from 0 to 3 cyclically (for independent sums).
/// `scratch` [parts * part] is overwritten; `take` may read from it, and `give` write to it.
template <Passes passes, class C, class Take, class Give>
[[gnu::always_inline]] inline void transform_vectors(const HadamardSize& shape, C* scratch, const Take& take,
                                                     Give& give) {
  const std::int64_t length = shape.parts * shape.part;
  const std::int64_t together = std::min<std::int64_t>(shape.part, max_vectors * lanes);  // what registers hold
  const C factor = static_cast<C>(1 / std::sqrt(static_cast<double>(shape.parts == 3 ? shape.part : length)));
  const auto in_registers = [&](const auto& from, auto& to) __attribute__((always_inline)) {
    if constexpr (std::is_same_v<C, float>)
      with_vectors(
          together / lanes, [&]<int vectors>(std::integral_constant<int, vectors>) __attribute__((always_inline)) {
            for (std::int64_t i = 0; i < length; i += vectors * lanes) transform_part<vectors, C>(i, factor, from, to);
          });
    else  // values that f32 does not hold are rare
      for (std::int64_t i = 0; i < length; i += together)
        transform_part_in_loops<C>(static_cast<int>(together / lanes), i, factor, from, to);
  };
  if (length == together) return in_registers(take, give);
  const auto kept = [scratch](std::int64_t i, C) { return load(scratch + i); };
  auto keep = [scratch](int, std::int64_t i, const Lanes<C>& values) { store<C>(values, scratch + i); };
  // Butterflies of values `apart` from each other, four or two at once.
  const auto combine = [&](std::int64_t apart, int parts, const auto& from, auto& to) __attribute__((always_inline)) {
    for (std::int64_t i = 0; i < length; i += parts * apart)
      combine_parts<C>(
          apart, parts, [&](int index, std::int64_t j) { return from(i + index * apart + j, factor); },
          [&](int index, std::int64_t j, const Lanes<C>& values) { to(index, i + index * apart + j, values); });
  };
  const auto combine_all = [&](const auto& from, auto& to) __attribute__((always_inline)) {
    combine_all_parts<C>(
        shape, [&](int index, std::int64_t j) { return from(index * shape.part + j, factor); },
        [&](int index, std::int64_t j, const Lanes<C>& values) { to(index, index * shape.part + j, values); });
  };
  const auto at_once = [](std::int64_t parts) { return parts >= 4 ? 4 : 2; };
  if constexpr (passes == Passes::reads_in_order) {
    in_registers(take, keep);
    for (std::int64_t done = together; done < shape.part;) {
      const int parts = at_once(shape.part / done);
      if (parts * done == length)
        combine(done, parts, kept, give);
      else
        combine(done, parts, kept, keep);
      done *= parts;
    }
    combine_all(kept, give);
  } else {
    combine_all(take, keep);
    for (std::int64_t left = shape.part; left > together;) {
      const int parts = at_once(left / together);
      if (left == length)
        combine(left / parts, parts, take, keep);
      else
        combine(left / parts, parts, kept, keep);
      left /= parts;
    }
    in_registers(kept, give);
  }
}

/// Transforms values of any shape in place.
template <class C>
[[gnu::noinline]] void transform_in_place(const HadamardSize& shape, C* values) {
  if (shape.part < lanes) return transform_few(values, shape);
  const auto take = [values](std::int64_t i, C factor) { return load(values + i) * factor; };
  auto give = [values](int, std::int64_t i, const Lanes<C>& some) { store<C>(some, values + i); };
  transform_vectors<Passes::reads_in_order, C>(shape, values, take, give);
}

/// Multiplies `count` values by an orthogonal matrix that is its own inverse. If hadamard_size(count) covers all of
/// them, it is that matrix. Otherwise it is applied to the first values, to as many values at the end, and to the first
/// again, so that each value has a small weight in every other. `take` and `give` are as in transform_vectors, in whole
/// vectors; lanes beyond `count` are ignored and come out as 0. `scratch` [whole_vectors(count)] is overwritten. Both
/// functions are passed by value and inlined, so that their state stays in registers; returns `give`.
template <Passes passes, class C, class Take, class Give>
[[gnu::flatten]] inline Give hadamard_transform(std::int64_t count, C* scratch, const Take take, Give give) {
  if (count == 0) return give;
  const HadamardSize shape = hadamard_size(count);
  const std::int64_t length = shape.parts * shape.part;
  if (length == count && shape.part >= lanes) {
    transform_vectors<passes, C>(shape, scratch, take, give);
    return give;
  }
  for (std::int64_t i = 0; i < count; i += lanes) store<C>(take(i, C{1}), scratch + i);
  transform_in_place(shape, scratch);
  if (length < count) {
    transform_in_place(shape, scratch + (count - length));
    transform_in_place(shape, scratch);
  }
  std::fill(scratch + count, scratch + whole_vectors(count), C{0});
  for (std::int64_t i = 0; i < count; i += lanes) give(0, i, load(scratch + i));
  return give;
}

}  // namespace lacuna::quant
