// Steps that fused attention kernels share: workspaces of a thread, softmax of score rows and its gradient.
#pragma once

#include "ops/kernels/tile.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace lacuna::tile {

/// Divides one thread's part of a workspace into arrays that start on cache lines.
template <class C>
class Arena {
 public:
  explicit Arena(C* memory) : next_(memory) {}
  C* take(std::int64_t count) {
    C* const piece = next_;
    next_ += rounded(count);
    return piece;
  }
  static std::int64_t rounded(std::int64_t count) { return round_up(count, 64 / static_cast<std::int64_t>(sizeof(C))); }

 private:
  C* next_;
};

/// Softmax without the division, in place: `scores` are logarithms to base 2, and row i still has to be multiplied by
/// inverse[i]. Rows are taken as many at a time as a vector has lanes, which computes the numbers per row in one
/// vector.
template <class C>
void softmax_rows(C* scores, std::int64_t stride, std::int64_t count, std::int64_t length, C* inverse) {
  const std::int64_t whole = length / lanes<C> * lanes<C>;
  for (std::int64_t first = 0; first < count; first += lanes<C>) {
    const std::int64_t own = std::min(lanes<C>, count - first);
    Vector<C> greatest[lanes<C>] = {}, sums[lanes<C>] = {};
    for (std::int64_t r = 0; r < own; ++r) {
      C* const row = scores + (first + r) * stride;
      for (std::int64_t j = length; j < padded<C>(length); ++j) row[j] = -std::numeric_limits<C>::infinity();
      Vector<C> top = load(row);
      for (std::int64_t j = lanes<C>; j < length; j += lanes<C>) {
        const Vector<C> v = load(row + j);
        top = v > top ? v : top;
      }
      greatest[r] = top;
    }
    transpose<C>(greatest);
    Vector<C> tops = greatest[0];
    for (const Vector<C>& v : greatest) tops = v > tops ? v : tops;

    for (std::int64_t r = 0; r < own; ++r) {
      C* const row = scores + (first + r) * stride;
      const C top = tops[r];
      Vector<C> sum{};
      for (std::int64_t j = 0; j < whole; j += lanes<C>) {
        const Vector<C> p = exp2(load(row + j) - top);
        store(row + j, p);
        sum += p;
      }
      if (whole < length) {
        const Vector<C> p = exp2(load(row + whole) - top);
        store(row + whole, p);
        sum += load_as(row + whole, length - whole);
      }
      sums[r] = sum;
    }
    transpose<C>(sums);
    Vector<C> totals{};
    for (const Vector<C>& v : sums) totals += v;
    const Vector<C> inverses = C(1) / totals;
    for (std::int64_t r = 0; r < own; ++r) inverse[first + r] = inverses[r];
  }
}

/// ds = ds − p · Σ ds, where `ds` [keys] holds p ∘ dp of one row: the gradient of the row's scores.
template <class C>
void softmax_gradient(std::int64_t keys, const C* p, C* ds) {
  C total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t j = 0; j < keys; ++j) total += ds[j];
#pragma omp simd
  for (std::int64_t j = 0; j < keys; ++j) ds[j] = ds[j] - p[j] * total;
}

}  // namespace lacuna::tile
