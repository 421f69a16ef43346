// The factors of attention's products, in the type that they are multiplied in.
#pragma once

#include "ops/attention/attention_tile.h"
#include "ops/kernels/tile_pairs.h"

namespace lacuna::tile {

/// Tokens of T are converted to its compute type, scores are multiplied as they are.
template <class T, bool pairs = std::is_same_v<T, bf16>>
struct Factors {
  using C = Compute<T>;
  using Element = C;

  static std::int64_t depth(std::int64_t depth) { return depth; }
  static void pack(const T* from, std::int64_t stride, std::int64_t depth, std::int64_t columns, C* panels) {
    tile::pack(from, stride, depth, columns, panels);
  }
  static void pack_transposed(const T* from, std::int64_t stride, std::int64_t depth, std::int64_t columns, C* panels) {
    tile::pack_transposed(from, stride, depth, columns, C(1), panels);
  }
  static Left<C, false> tokens(const T* from, std::int64_t stride, std::int64_t height, std::int64_t depth, C* copy) {
    return left_rows(from, stride, height, depth, copy);
  }
  static Left<C, true> transposed_scores(const C* scores, std::int64_t stride, std::int64_t, std::int64_t, C*) {
    return {scores, stride};
  }
  static Left<C, false> scores(C* scores, std::int64_t stride, std::int64_t, std::int64_t) { return {scores, stride}; }
};

/// Tokens of bf16 are multiplied as they are, scores are rounded to bf16.
template <>
struct Factors<bf16, true> {
  using Element = Pair;

  static std::int64_t depth(std::int64_t depth) { return pairs_of(depth); }
  static void pack(const bf16* from, std::int64_t stride, std::int64_t depth, std::int64_t columns, Pair* panels) {
    pack_pairs(from, stride, depth, columns, panels);
  }
  static void pack_transposed(const bf16* from, std::int64_t stride, std::int64_t depth, std::int64_t columns,
                              Pair* panels) {
    pack_pairs_transposed(from, stride, depth, columns, panels);
  }
  static Left<Pair, false> tokens(const bf16* from, std::int64_t stride, std::int64_t height, std::int64_t depth,
                                  Pair* copy) {
    return left_pairs(from, stride, height, depth, copy);
  }
  /// Written to `memory` [count, stride], which may be the scores' own.
  static Left<Pair, true> transposed_scores(const float* scores, std::int64_t stride, std::int64_t count,
                                            std::int64_t keys, float* memory) {
    return columns_as_pairs(scores, stride, count, keys, memory);
  }
  /// The scores are overwritten.
  static Left<Pair, false> scores(float* scores, std::int64_t stride, std::int64_t count, std::int64_t keys) {
    return rows_as_pairs(scores, stride, count, keys);
  }
};

/// Calls `f(Type<T>{}, std::bool_constant<pairs>{})`, the parameters of the Factors for tokens of `dtype`.
template <class F>
decltype(auto) with_factors(DType dtype, const F& f) {
  return with_float_type(dtype, [&]<class T>(Type<T> type) {
    if constexpr (std::is_same_v<T, bf16> && has_pairs) {
      if (multiplies_pairs()) return f(type, std::true_type{});
    }
    return f(type, std::false_type{});
  });
}

}  // namespace lacuna::tile
