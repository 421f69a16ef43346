// Walsh and Hadamard's transform in few passes, with what comes before and after it done in the first and the last.
#pragma once

#include "ops/quantize/lanes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace lacuna::quant {

template <std::size_t by, class C, std::size_t... i>
inline Lanes<C> butterfly(const Lanes<C>& all, std::index_sequence<i...>) {
  const Lanes<C> signs = {((i & by) != 0 ? C{-1} : C{1})...};
  return exchanged<by>(all) + all * signs;
}
/// Sums and differences of lanes `by` apart.
template <std::size_t by, class C>
inline Lanes<C> butterfly(const Lanes<C>& all) {
  return butterfly<by, C>(all, std::make_index_sequence<lanes>());
}
/// Those of `by` and all greater distances.
template <std::size_t by, class C>
inline Lanes<C> butterflies(const Lanes<C>& all) {
  const Lanes<C> next = butterfly<by, C>(all);
  if constexpr (2 * by < lanes)
    return butterflies<2 * by, C>(next);
  else
    return next;
}

/// What is transformed at once: `parts` of 2^k values each. Two or four parts are summed and subtracted, three are
/// reflected: less two thirds of their sum.
struct HadamardRun {
  std::int64_t part;
  int parts;
};
/// Vectors of values that 32 registers, or 16, hold beside what else is needed.
inline constexpr int most_vectors = vector_bytes == 64 ? 16 : 8;
/// Part of the matrix, and so of the codes' meaning: the same whatever registers hold.
inline constexpr std::int64_t longest_part = 256;

/// The longest that `count` values begin with.
inline HadamardRun hadamard_run(std::int64_t count) {
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count)));
  if (power / 2 * 3 <= count && 1 < power && power / 2 <= longest_part) return {power / 2, 3};
  if (power <= longest_part) return {power, 1};
  return {longest_part, power > 2 * longest_part ? 4 : 2};
}

/// Of one part of `vectors` vectors, in registers. `take(i, factor)`: the values from i on, times the factor;
/// `give(stream, i, values)`.
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

/// Calls `f` with a number of vectors, 2^k up to `most`, as a constant.
template <int most = most_vectors, class F>
[[gnu::always_inline]] inline void with_vectors(std::int64_t vectors, const F& f) {
  if (vectors == most)
    f(std::integral_constant<int, most>{});
  else if constexpr (most > 1)
    with_vectors<most / 2>(vectors, f);
}

/// Of a run whose parts fill no vector, in place.
template <class C>
inline void transform_few(C* values, const HadamardRun& run) {
  const auto [part, parts] = run;
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
      const C most = (values[i] + values[i + part] + values[i + 2 * part]) * static_cast<C>(2.0 / 3);
      for (C* own = values; own < values + 3 * part; own += part) own[i] = most - own[i];
    }
}

/// Sums and differences of `parts` parts, four or two, of `length` values each, vector by vector: `kept(index, i)`
/// returns values i and so on of a part, and `give(index, i, values)` gets what becomes of them.
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
/// Three parts of `length` values less two thirds of their sum.
template <class C, class Kept, class Give>
[[gnu::always_inline]] inline void reflect_parts(std::int64_t length, const Kept& kept, const Give& give) {
  for (std::int64_t i = 0; i < length; i += lanes) {
    const Lanes<C> a = kept(0, i), b = kept(1, i), c = kept(2, i);
    const Lanes<C> most = (a + b + c) * static_cast<C>(2.0 / 3);
    give(0, i, most - a);
    give(1, i, most - b);
    give(2, i, most - c);
  }
}

/// The parts of a run combined, as they come and go in vectors. `kept` and `give` as of `combine_parts`.
template <class C, class Kept, class Give>
[[gnu::always_inline]] inline void combine_run(const HadamardRun& run, const Kept& kept, const Give& give) {
  if (run.parts == 3)
    reflect_parts<C>(run.part, kept, give);
  else if (run.parts > 1)
    combine_parts<C>(run.part, run.parts, kept, give);
}

/// In which order the passes over a run go. Memory of which a pass reads or writes one line after the other is fetched
/// ahead, or not fetched at all where whole lines are written; from or to all parts at once it takes twice as long.
enum class Passes : std::uint8_t { reads_in_order, writes_in_order };

/// Transforms a run in vectors: `take(i, factor)` returns its values from i on, times the factor; `give(stream, i,
/// values)` gets what becomes of them, the stream being one of four that follow each other (for sums that do not wait).
/// `room` [parts * part] is overwritten, and may be where `take` finds the values and `give` puts them.
template <Passes passes, class C, class Take, class Give>
[[gnu::always_inline]] inline void transform_run(const HadamardRun& run, C* room, const Take& take, Give& give) {
  const std::int64_t length = run.parts * run.part;
  const std::int64_t together = std::min<std::int64_t>(run.part, most_vectors * lanes);  // what registers hold
  const C factor = static_cast<C>(1 / std::sqrt(static_cast<double>(run.parts == 3 ? run.part : length)));
  const auto in_registers = [&](const auto& from, auto& to) __attribute__((always_inline)) {
    with_vectors(
        together / lanes, [&]<int vectors>(std::integral_constant<int, vectors>) __attribute__((always_inline)) {
          for (std::int64_t i = 0; i < length; i += vectors * lanes) transform_part<vectors, C>(i, factor, from, to);
        });
  };
  if (length == together) return in_registers(take, give);
  const auto kept = [room](std::int64_t i, C) { return load(room + i); };
  auto keep = [room](int, std::int64_t i, const Lanes<C>& values) { store<C>(values, room + i); };
  // Sums and differences of values `apart` from each other, of four or two at once.
  const auto combine = [&](std::int64_t apart, int parts, const auto& from, auto& to) __attribute__((always_inline)) {
    for (std::int64_t i = 0; i < length; i += parts * apart)
      combine_parts<C>(
          apart, parts, [&](int index, std::int64_t j) { return from(i + index * apart + j, factor); },
          [&](int index, std::int64_t j, const Lanes<C>& values) { to(index, i + index * apart + j, values); });
  };
  const auto combine_all = [&](const auto& from, auto& to) __attribute__((always_inline)) {
    combine_run<C>(
        run, [&](int index, std::int64_t j) { return from(index * run.part + j, factor); },
        [&](int index, std::int64_t j, const Lanes<C>& values) { to(index, index * run.part + j, values); });
  };
  const auto at_once = [](std::int64_t parts) { return parts >= 4 ? 4 : 2; };
  if constexpr (passes == Passes::reads_in_order) {
    in_registers(take, keep);
    for (std::int64_t done = together; done < run.part;) {
      const int parts = at_once(run.part / done);
      if (parts * done == length)
        combine(done, parts, kept, give);
      else
        combine(done, parts, kept, keep);
      done *= parts;
    }
    combine_all(kept, give);
  } else {
    combine_all(take, keep);
    for (std::int64_t left = run.part; left > together;) {
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

/// The same in place, of any run.
template <class C>
[[gnu::noinline]] void transform_run(const HadamardRun& run, C* values) {
  if (run.part < lanes) return transform_few(values, run);
  const auto take = [values](std::int64_t i, C factor) { return load(values + i) * factor; };
  auto give = [values](int, std::int64_t i, const Lanes<C>& some) { store<C>(some, values + i); };
  transform_run<Passes::reads_in_order, C>(run, values, take, give);
}

/// Transforms `count` values by an orthogonal matrix that is its own inverse: Walsh and Hadamard's, of the longest run
/// that they begin with. Where that is not all of them: of this run, of an equal one that ends with the last value, and
/// of the first again, so that each value counts for little in every other. `take` and `give` as above; i comes in
/// whole vectors; lanes beyond `count` are not looked at and come out as 0. `room` [whole_vectors(count)] is
/// overwritten. Both functions come by value and are called in line, so that what they hold stays in registers; returns
/// `give`.
template <Passes passes, class C, class Take, class Give>
[[gnu::flatten]] inline Give hadamard_transform(std::int64_t count, C* room, const Take take, Give give) {
  if (count == 0) return give;
  const HadamardRun run = hadamard_run(count);
  const std::int64_t length = run.parts * run.part;
  if (length == count && run.part >= lanes) {
    transform_run<passes, C>(run, room, take, give);
    return give;
  }
  for (std::int64_t i = 0; i < count; i += lanes) store<C>(take(i, C{1}), room + i);
  transform_run(run, room);
  if (length < count) {
    transform_run(run, room + (count - length));
    transform_run(run, room);
  }
  std::fill(room + count, room + whole_vectors(count), C{0});
  for (std::int64_t i = 0; i < count; i += lanes) give(0, i, load(room + i));
  return give;
}

}  // namespace lacuna::quant
