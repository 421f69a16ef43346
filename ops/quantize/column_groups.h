// Column groups: arrays with one number per column, so that loops run over whole blocks however narrow the groups are.
#pragma once

#include "ops/quantize/affine_kernels.h"
#include "ops/quantize/layout.h"
#include "ops/quantize/workspace.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace lacuna::quant {

/// Numbers [columns + block]: those of a row, repeated cyclically as far as a block reaches that begins at any column.
template <class N>
class ByColumn {
 public:
  ByColumn(ArrayCutter& cutter, std::int64_t columns) : columns_(columns), numbers_(cutter.cut<N>(columns + block)) {}

  /// The numbers of `element` and of the elements behind it in its block.
  const N* from(std::int64_t element) const { return numbers_ + element % columns_; }
  N* from(std::int64_t element) { return numbers_ + element % columns_; }

  void fill(N value) { std::fill_n(numbers_, columns_ + block, value); }
  /// Fills the columns of each group of `layout` with `number(group)`.
  template <class F>
  void fill(const Layout& layout, const F& number) {
    for (std::int64_t first = 0; first < columns_; first += layout.size)
      std::fill(numbers_ + first, numbers_ + std::min(columns_, first + layout.size), number(first / layout.size));
    for (std::int64_t i = 0; i < block; ++i) numbers_[columns_ + i] = numbers_[i];
  }
  /// Calls `f(column, number)` for all; some columns come more than once.
  template <class F>
  void for_all(const F& f) const {
    for (std::int64_t i = 0; i < columns_ + block; ++i) f(i % columns_, numbers_[i]);
  }

 private:
  std::int64_t columns_;
  N* numbers_;
};

/// The lines of all columns, in f32.
class ColumnLines {
 public:
  ColumnLines(ArrayCutter& cutter, std::int64_t columns) : origins_(cutter, columns), factors_(cutter, columns) {}
  /// `line(group)`: the Line<float> of each group of `layout`.
  template <class F>
  void fill(const Layout& layout, const F& line) {
    origins_.fill(layout, [&](std::int64_t group) { return line(group).origin; });
    factors_.fill(layout, [&](std::int64_t group) { return line(group).factor; });
  }
  /// The lines of `element` and of the elements behind it in its block.
  ElementLines from(std::int64_t element) const { return {origins_.from(element), factors_.from(element)}; }

 private:
  ByColumn<float> origins_, factors_;
};

// Groups narrower than this are faster by column than piece by piece: to encode and observe, and to decode without
// dither.
inline constexpr std::int64_t narrow_columns = 32, narrow_columns_undithered = 64;

/// Minimum and maximum of each column, of the elements that one thread reads.
template <class T>
class ColumnMinMax {
 public:
  ColumnMinMax(ArrayCutter& cutter, std::int64_t columns) : mins_(cutter, columns), maxs_(cutter, columns) {}

  void clear() {
    mins_.fill(limits::max());
    maxs_.fill(limits::min());
  }
  /// Adds elements [begin, end) of x, which lie in one block.
  void add(const T* x, std::int64_t begin, std::int64_t end) {
    with_count(end - begin,
               [&](std::int64_t count) { add_each(x + begin, count, mins_.from(begin), maxs_.from(begin)); });
  }
  /// Calls `f(column, min, max)`; some columns come more than once.
  template <class F>
  void for_all(const F& f) const {
    mins_.for_all([&](std::int64_t column, Key<T> key) { f(column, key, limits::min()); });
    maxs_.for_all([&](std::int64_t column, Key<T> key) { f(column, limits::max(), key); });
  }

 private:
  using limits = std::numeric_limits<Key<T>>;

  /// All arrays: [count].
  static void add_each(const T* x, std::int64_t count, Key<T>* mins, Key<T>* maxs) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const Key<T> key = key_of(x[i]);
      mins[i] = key < mins[i] ? key : mins[i];
      maxs[i] = key > maxs[i] ? key : maxs[i];
    }
  }

  ByColumn<Key<T>> mins_, maxs_;
};

}  // namespace lacuna::quant
