// Groups that are columns: what belongs to an element by its place in the row, so that loops run over whole blocks
// however narrow the groups are.
#pragma once

#include "ops/quantize/affine_kernels.h"
#include "ops/quantize/layout.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace lacuna::quant {

/// A number a column: those of a row and, since a block may begin at any of them, as many more as a block has.
template <class N>
class ByColumn {
 public:
  ByColumn(std::int64_t columns, N value)
      : columns_(columns), memory_(static_cast<std::size_t>((columns + block + in_line - 1) / in_line)) {
    std::fill_n(from(0), columns_ + block, value);
  }

  /// Those of an element and of the ones after it, as far as its block goes.
  const N* from(std::int64_t element) const { return reinterpret_cast<const N*>(memory_.data()) + element % columns_; }
  N* from(std::int64_t element) { return reinterpret_cast<N*>(memory_.data()) + element % columns_; }

  /// `number(group)` for the columns of each group of `layout`.
  template <class F>
  void fill(const Layout& layout, const F& number) {
    N* const all = from(0);
    for (std::int64_t first = 0; first < columns_; first += layout.size)
      std::fill(all + first, all + std::min(columns_, first + layout.size), number(first / layout.size));
    for (std::int64_t i = 0; i < block; ++i) all[columns_ + i] = all[i];
  }
  /// Calls `f(column, number)` for all.
  template <class F>
  void for_all(const F& f) const {
    for (std::int64_t i = 0; i < columns_ + block; ++i) f(i % columns_, from(0)[i]);
  }

 private:
  // Vectors of them are to lie within lines of the cache: across two they take twice as long.
  static constexpr std::int64_t in_line = 64 / sizeof(N);
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };
  std::int64_t columns_;
  std::vector<CacheLine> memory_;  // [columns + block]
};

/// The lines of all columns, in floats.
class ColumnLines {
 public:
  /// `line(group)`: a Line<float> for each group of `layout`.
  template <class F>
  ColumnLines(const Layout& layout, const F& line) : origins_(layout.columns, 0), factors_(layout.columns, 0) {
    origins_.fill(layout, [&](std::int64_t group) { return line(group).origin; });
    factors_.fill(layout, [&](std::int64_t group) { return line(group).factor; });
  }
  /// Those of an element and of the ones after it, as far as its block goes.
  OwnLines from(std::int64_t element) const { return {origins_.from(element), factors_.from(element)}; }

 private:
  ByColumn<float> origins_, factors_;
};

// Columns of a group below which it is faster to go by columns than by pieces of groups: to code them, and to decode
// codes that stand for themselves.
inline constexpr std::int64_t narrow_below = 32, narrow_plain = 64;

/// The least and the greatest value of each column, of what one thread reads.
template <class T>
class ColumnExtremes {
 public:
  explicit ColumnExtremes(std::int64_t columns) : least_(columns, limits::max()), most_(columns, limits::min()) {}

  /// Adds elements [begin, end), of one block. `x`: all of them.
  void add(const T* x, std::int64_t begin, std::int64_t end) {
    with_count(end - begin,
               [&](std::int64_t count) { add_each(x + begin, count, least_.from(begin), most_.from(begin)); });
  }
  /// Calls `f(column, least, most)`, for some columns more than once.
  template <class F>
  void for_all(const F& f) const {
    least_.for_all([&](std::int64_t column, Key<T> key) { f(column, key, limits::min()); });
    most_.for_all([&](std::int64_t column, Key<T> key) { f(column, limits::max(), key); });
  }

 private:
  using limits = std::numeric_limits<Key<T>>;

  /// All: [count].
  static void add_each(const T* x, std::int64_t count, Key<T>* least, Key<T>* most) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const Key<T> key = key_of(x[i]);
      least[i] = key < least[i] ? key : least[i];
      most[i] = key > most[i] ? key : most[i];
    }
  }

  ByColumn<Key<T>> least_, most_;
};

}  // namespace lacuna::quant
