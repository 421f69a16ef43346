// Shared parts of the attention kernels: products of tiles of 64 rows in shared memory, in plain multiply-adds, and the
// sums of a softmax that sees its row a tile at a time (Dao et al. 2022, "FlashAttention").
//
// A block of 16 x 16 threads has a tile of 64 queries by 64 keys of one head. Thread (x, y) has 4 x 4 of its scores,
// those of queries 4·y + i and keys x + 16·j. Rows are read through an accessor: `count` rows, `value(row, column)`.
#pragma once

#include "core/block.h"
#include "core/random.h"

#include <cmath>
#include <cstdint>

namespace lacuna::cuda {

inline constexpr int tile = 64, chunk = 32, each = 4, across = 16, block_threads = across * across;
inline constexpr float log2e = 1.44269504F;

/// `packs`: head dimensions up to 64 · packs.
template <int packs>
struct Tiles {
  union {
    struct {
      float a[tile][chunk + 4], b[tile][chunk + 4];
    } factors;
    float rows[chunk][tile * packs + 4];  // [chunk, d]
  };
  float p[tile][tile + 4], ds[tile][tile + 4];  // [queries, keys]
};

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

template <class B, class Rows>
LACUNA_DEVICE void load_chunk(const B& block, std::int64_t dim, const Rows& from, std::int64_t first, std::int64_t d,
                              float (&to)[tile][chunk + 4]) {
  for (int i = block.thread(); i < tile * chunk; i += block_threads) {
    const int r = i / chunk, c = i % chunk;
    to[r][c] = first + r < from.count && d + c < dim ? from.value(first + r, d + c) : 0.0F;
  }
}

/// out[i][j] += row first_a + 4·y + i of `left` times row first_b + x + 16·j of `right`.
template <class B, class Left, class Right>
LACUNA_DEVICE void multiply(const B& block, std::int64_t dim, const Left& left, std::int64_t first_a,
                            const Right& right, std::int64_t first_b, Scores& out) {
  auto& factors = block.shared().tiles.factors;
  const int x = x_of(block), own = own_row(block);
  for (std::int64_t d = 0; d < dim; d += chunk) {
    block.sync();  // all are done with the last chunk
    load_chunk(block, dim, left, first_a, d, factors.a);
    load_chunk(block, dim, right, first_b, d, factors.b);
    block.sync();
#pragma unroll 2
    for (int e = 0; e < chunk; e += 4) {
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

/// A thread's scores into a tile in shared memory.
template <class B>
LACUNA_DEVICE void share(const B& block, const Scores& scores, float (&to)[tile][tile + 4]) {
  const int x = x_of(block), own = own_row(block);
#pragma unroll
  for (int i = 0; i < each; ++i)
#pragma unroll
    for (int j = 0; j < each; ++j) to[own + i][x + across * j] = scores[i][j];
}

/// out += weights · rows [first, first + tile) of `right`; `transposed`: weightsᵀ. Waits until all threads have written
/// `weights`.
template <bool transposed, int packs, class B, class Right>
LACUNA_DEVICE void accumulate(const B& block, std::int64_t dim, const float (&weights)[tile][tile + 4],
                              const Right& right, std::int64_t first, Sums<packs>& out) {
  auto& rows = block.shared().tiles.rows;
  const int x = x_of(block), own = own_row(block);
  for (int begin = 0; begin < tile; begin += chunk) {
    block.sync();
    if (first + begin >= right.count) break;
    for (int i = block.thread(); i < chunk * tile * packs; i += block_threads) {
      const int r = i / (tile * packs), c = i % (tile * packs);
      const std::int64_t row = first + begin + r;
      rows[r][c] = row < right.count && c < dim ? right.value(row, c) : 0.0F;
    }
    block.sync();
#pragma unroll 4
    for (int k = 0; k < chunk; ++k) {
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
