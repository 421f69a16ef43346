// Shared parts of the attention kernels: products of tiles of 64 rows in shared memory, on tensor cores in bf16 and f16
// and in plain multiply-adds in f32, and the sums of a softmax that sees its row a tile at a time (Dao et al. 2022,
// "FlashAttention").
//
// A block of 16 x 16 threads has a tile of 64 queries by 64 keys of one head. Thread (x, y) has 4 x 4 of its scores,
// those of queries 4·y + i and keys x + 16·j. Rows are read through an accessor: `count` rows, `value(row, column)` and
// `eight(row, column, dim)`, the eight elements from there on, zeros from column `dim` on.
#pragma once

#include "core/random.h"
#include "ops/cuda/tensor_cores.h"

#include <cmath>
#include <cstdint>

namespace lacuna::cuda {

inline constexpr int tile = 64, each = 4, across = 16, block_threads = across * across;
inline constexpr float log2e = 1.44269504F;

/// Columns of the factors that shared memory holds at a time, and what spreads rows over its banks.
template <class T>
inline constexpr int chunk = 128 / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int spread = 16 / static_cast<int>(sizeof(T));

/// Rows that tensor cores multiply, and scores that they multiply by.
template <class T>
using TileRows = T[tile][chunk<T> + spread<T>];
template <class T>
using Weights = T[tile][tile + spread<T>];

/// `packs`: head dimensions up to 64 · packs.
template <class T, int packs>
struct alignas(32) Tiles {  // as tensor cores read them
  union {
    struct {
      TileRows<T> a, b;
    } factors;
    float rows[chunk<float>][tile * (is_half<T> ? 1 : packs) + 4];  // [chunk, d], for multiply-adds
    float sums[tile][tile + 4];                                     // [queries, keys] or [tile, d]
  };
  Weights<T> weights;  // [queries, keys]
};

/// Blocks that a multiprocessor has at a time: as many as registers allow.
template <class T, int packs>
inline constexpr int tiles_together = is_half<T>&& packs == 1 ? 2 : 1;

/// A thread's part of a tile of scores, and of [tile, d]: rows 4·y + i, columns 64·pack + 4·x + e.
using Scores = float[each][each];
template <int packs>
using Sums = float[each][packs][4];

template <class B>
LACUNA_DEVICE int x_of(const B& block) {
  return block.thread() % across;
}
/// The first of a thread's rows of a tile.
template <class B>
LACUNA_DEVICE int own_row(const B& block) {
  return each * (block.thread() / across);
}

/// Elements [column, column + 8) of a row; zeros from `dim` on.
template <class T>
LACUNA_DEVICE Pack<T, 8> eight_of(const T* row, std::int64_t column, std::int64_t dim) {
  if (column + 8 <= dim && is_aligned(row + column)) return load_pack<8>(row + column);
  Pack<T, 8> pack{};
  for (int i = 0; i < 8 && column + i < dim; ++i) pack[i] = row[column + i];
  return pack;
}

/// Rows of one head of one sample in memory; the first `count` of them are read.
template <class T>
struct HeadRows {
  const T* data;
  std::int64_t stride, count;
  LACUNA_DEVICE float value(std::int64_t row, std::int64_t column) const {
    return to_compute(data[row * stride + column]);
  }
  LACUNA_DEVICE Pack<T, 8> eight(std::int64_t row, std::int64_t column, std::int64_t dim) const {
    return eight_of(data + row * stride, column, dim);
  }
};

/// Rows [first, first + tile) of `from`, columns [d, d + width): zeros where there are none. width: a multiple of 16.
template <class T, class B, class Rows>
LACUNA_DEVICE void load_rows(const B& block, std::int64_t dim, const Rows& from, std::int64_t first, std::int64_t d,
                             int width, TileRows<T>& to) {
  if constexpr (is_half<T>) {
    const int packs_of_row = width / 8;
    for (int i = block.thread(); i < tile * packs_of_row; i += block_threads) {
      const int r = i / packs_of_row, c = i % packs_of_row * 8;
      store_pack(&to[r][c], first + r < from.count ? from.eight(first + r, d + c, dim) : Pack<T, 8>{});
    }
  } else {
    for (int i = block.thread(); i < tile * chunk<T>; i += block_threads) {
      const int r = i / chunk<T>, c = i % chunk<T>;
      to[r][c] = first + r < from.count && d + c < dim ? from.value(first + r, d + c) : 0.0F;
    }
  }
}

/// Up to a multiple of 16, at most `most`.
LACUNA_DEVICE inline int whole_sixteens(std::int64_t count, int most) {
  return count < most ? static_cast<int>(count + 15) / 16 * 16 : most;
}

/// A tile of products by the block's warps: warp w has rows 16·(w / 2) on, columns 32·(w % 2) on.
template <class T>
class TileProduct {
 public:
  template <class B>
  LACUNA_DEVICE explicit TileProduct(const B& block)
      : sums_(block.lane()), row_(block.warp() / 2 * 16), column_(block.warp() % 2 * 32) {}
  /// += a [64, depth] · b [depth, 64].
  template <bool a_transposed, bool b_transposed, int a_stride, int b_stride>
  LACUNA_DEVICE void add(const T (*a)[a_stride], const T (*b)[b_stride], int depth) {
#pragma unroll 1  // saves registers
    for (int k = 0; k < depth; k += 16)
      sums_.template add<a_transposed, b_transposed>(a_transposed ? &a[k][row_] : &a[row_][k], a_stride,
                                                     b_transposed ? &b[column_][k] : &b[k][column_], b_stride);
  }
  /// All threads wait before it, if `to` lies over the factors, and after it.
  template <class B>
  LACUNA_DEVICE void store(const B& block, float (&to)[tile][tile + 4]) const {
    block.sync();
    sums_.store(&to[row_][column_], tile + 4);
    block.sync();
  }

 private:
  WarpSums<T, 32> sums_;
  int row_, column_;
};

/// out[i][j] += row first_a + 4·y + i of `left` times row first_b + x + 16·j of `right`.
template <class T, int packs, class B, class Left, class Right>
LACUNA_DEVICE void multiply(const B& block, Tiles<T, packs>& tiles, std::int64_t dim, const Left& left,
                            std::int64_t first_a, const Right& right, std::int64_t first_b, Scores& out) {
  auto& factors = tiles.factors;
  const int x = x_of(block), own = own_row(block);
  const auto load = [&](std::int64_t d, int width) {
    block.sync();  // all are done with the last chunk
    load_rows<T>(block, dim, left, first_a, d, width, factors.a);
    load_rows<T>(block, dim, right, first_b, d, width, factors.b);
    block.sync();
  };
  if constexpr (is_half<T>) {
    TileProduct<T> product(block);
    for (std::int64_t d = 0; d < dim; d += chunk<T>) {
      const int width = whole_sixteens(dim - d, chunk<T>);
      load(d, width);
      product.template add<false, true>(factors.a, factors.b, width);
    }
    product.store(block, tiles.sums);
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int j = 0; j < each; ++j) out[i][j] += tiles.sums[own + i][x + across * j];
  } else {
    for (std::int64_t d = 0; d < dim; d += chunk<T>) {
      load(d, chunk<T>);
#pragma unroll 2
      for (int e = 0; e < chunk<T>; e += 4) {
        Pack<float, 4> l[each], r[each];
#pragma unroll
        for (int i = 0; i < each; ++i) {
          l[i] = load_pack<4>(&factors.a[own + i][e]);
          r[i] = load_pack<4>(&factors.b[x + across * i][e]);
        }
#pragma unroll
        for (int i = 0; i < each; ++i)
#pragma unroll
          for (int j = 0; j < each; ++j)
#pragma unroll
            for (int k = 0; k < 4; ++k) out[i][j] += l[i][k] * r[j][k];
      }
    }
  }
}

/// A thread's scores into a tile in shared memory that nobody reads.
template <class T, int stride, class B>
LACUNA_DEVICE void share(const B& block, const Scores& scores, T (&to)[tile][stride]) {
  const int x = x_of(block), own = own_row(block);
#pragma unroll
  for (int i = 0; i < each; ++i)
#pragma unroll
    for (int j = 0; j < each; ++j) to[own + i][x + across * j] = static_cast<T>(scores[i][j]);
}

/// out += scores · rows [first, first + tile) of `right`; `transposed`: scoresᵀ. In bf16 and f16 the scores are rounded
/// to that type.
template <bool transposed, class T, int packs, class B, class Right>
LACUNA_DEVICE void accumulate(const B& block, Tiles<T, packs>& tiles, std::int64_t dim, const Scores& scores,
                              const Right& right, std::int64_t first, Sums<packs>& out) {
  const int x = x_of(block), own = own_row(block);
  auto& weights = tiles.weights;
  block.sync();  // all are done with the last ones
  share(block, scores, weights);
  if constexpr (is_half<T>) {
    const int depth = whole_sixteens(right.count - first, tile);
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      if (tile * p >= dim) break;
      block.sync();
      load_rows<T>(block, dim, right, first, tile * p, whole_sixteens(dim - tile * p, tile), tiles.factors.a);
      block.sync();
      TileProduct<T> product(block);
      product.template add<transposed, false>(weights, tiles.factors.a, depth);
      product.store(block, tiles.sums);
      if (tile * p + 4 * x >= dim) continue;
#pragma unroll
      for (int i = 0; i < each; ++i) {
        const auto sum = load_pack<4>(&tiles.sums[own + i][4 * x]);
#pragma unroll
        for (int e = 0; e < 4; ++e) out[i][p][e] += sum[e];
      }
    }
  } else {
    auto& rows = tiles.rows;
    for (int begin = 0; begin < tile; begin += chunk<T>) {
      block.sync();
      if (first + begin >= right.count) break;
      for (int i = block.thread(); i < chunk<T> * tile * packs; i += block_threads) {
        const int r = i / (tile * packs), c = i % (tile * packs);
        const std::int64_t row = first + begin + r;
        rows[r][c] = row < right.count && c < dim ? right.value(row, c) : 0.0F;
      }
      block.sync();
#pragma unroll 4
      for (int k = 0; k < chunk<T>; ++k) {
        float w[each];
#pragma unroll
        for (int i = 0; i < each; ++i) w[i] = transposed ? weights[begin + k][own + i] : weights[own + i][begin + k];
#pragma unroll
        for (int p = 0; p < packs; ++p) {
          const auto v = load_pack<4>(&rows[k][tile * p + 4 * x]);
#pragma unroll
          for (int i = 0; i < each; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) out[i][p][e] += w[i] * v[e];
        }
      }
    }
  }
}

/// Calls f(i, column, sum) for a thread's sums of columns below `dim`.
template <int packs, class B, class F>
LACUNA_DEVICE void for_sums(const B& block, std::int64_t dim, const Sums<packs>& sums, const F& f) {
  const int x = x_of(block);
#pragma unroll
  for (int i = 0; i < each; ++i)
#pragma unroll
    for (int p = 0; p < packs; ++p)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (tile * p + 4 * x + e < dim) f(i, tile * p + 4 * x + e, sums[i][p][e]);
}

/// The running maximum and sum of rows of scores (to base 2), in all 16 threads that have part of a row.
struct RowSums {
  float largest[each], total[each];
  LACUNA_DEVICE RowSums() {
    for (int i = 0; i < each; ++i) {
      largest[i] = -INFINITY;
      total[i] = 0;
    }
  }
  /// Takes a tile's scores in, which become 2^(score - largest), and returns what former sums shrink by.
  LACUNA_DEVICE float add(int i, float (&scores)[each]) {
    float most = largest[i];
#pragma unroll
    for (int j = 0; j < each; ++j) most = fmaxf(most, scores[j]);
    most = joined<across>(most, [](float a, float b) { return fmaxf(a, b); });
    const float shrink = most == largest[i] ? 1.0F : exp2f(largest[i] - most);
    largest[i] = most;
    float sum = 0;
#pragma unroll
    for (int j = 0; j < each; ++j) {
      scores[j] = scores[j] == -INFINITY ? 0.0F : exp2f(scores[j] - most);
      sum += scores[j];
    }
    total[i] = total[i] * shrink + sum_of_lanes<across>(sum);
    return shrink;
  }
  /// The logarithm to base 2 of the row's sum of powers.
  LACUNA_DEVICE float log_sum(int i) const { return largest[i] + log2f(total[i]); }
};

/// One copy of the generator's rounds, however often a kernel unrolls its loops.
[[gnu::noinline]] LACUNA_DEVICE inline std::uint32_t draw(const RandomStream& stream, std::uint64_t sample,
                                                          std::int64_t element) {
  return stream.now().draw_of_sample(sample,
                                     static_cast<std::uint32_t>(element / 4))[static_cast<std::size_t>(element % 4)];
}

/// Calls f.template operator()<T, packs>() for the type of the tokens and the head dimension, at most 128.
template <class F>
void with_packs(DType type, std::int64_t head_dim, const F& f) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    if (head_dim <= tile)
      f.template operator()<T, 1>();
    else
      f.template operator()<T, 2>();
  });
}

}  // namespace lacuna::cuda
