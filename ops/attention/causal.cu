// Causal attention on a GPU: head dimensions up to 256. A tile of queries meets the tiles of keys that any of them
// sees.
#include "ops/attention/attention_tiles.h"
#include "ops/attention/causal_cuda.h"
#include "ops/attention/rounded_alibi.h"

namespace lacuna::cuda {
namespace {

/// Tokens of one sequence. Query i has the position first_query + i.
struct CausalSequence {
  std::int64_t index, queries, keys, first_query;
};

template <class T, int packs>
struct CausalPass {
  static constexpr int threads = block_threads, blocks_together = tiles_together<T, packs>;
  struct Shared {
    Tiles<T, packs> tiles;
  };
  CausalProblem problem;

  LACUNA_DEVICE CausalSequence sequence(std::int64_t index) const {
    const std::int64_t queries = problem.queries.lengths[index], keys = problem.keys.lengths[index];
    return {index, queries, keys, keys - queries};
  }
  LACUNA_DEVICE HeadRows<T> rows(const TokenRows& of, const CausalSequence& s, std::int64_t head,
                                 std::int64_t count) const {
    return {static_cast<const T*>(of.data) + of.first_row(s.index) * of.stride + head * problem.head_dim, of.stride,
            count};
  }
  LACUNA_DEVICE std::int64_t head_of_keys(std::int64_t head) const { return head / (problem.heads / problem.kv_heads); }
  /// The tile of keys from which the tile of queries from `query` on sees any.
  LACUNA_DEVICE std::int64_t first_tile(const CausalSequence& s, std::int64_t query) const {
    const std::int64_t key = problem.window == 0 ? 0 : s.first_query + query - problem.window + 1;
    return key > 0 ? key / tile * tile : 0;
  }
  /// The end of the keys that it sees.
  LACUNA_DEVICE std::int64_t last_key(const CausalSequence& s, std::int64_t query) const {
    const std::int64_t end = s.first_query + query + tile + problem.ahead;
    return end < s.keys ? end : s.keys;
  }

  /// From q·k to scores to base 2, of queries `query` + i and keys `key` + 16·j; -inf where a query does not see a key.
  /// slope: what a score's gradient is multiplied by for that of scale · q·k.
  LACUNA_DEVICE void finish(const CausalSequence& s, std::int64_t head, std::int64_t query, std::int64_t key,
                            Scores& scores, Scores* slope = nullptr) const {
    const float alibi = problem.slopes == nullptr ? 0.0F : problem.slopes[head];
    // In int, as 64 bits take twice the registers
    const int first = static_cast<int>(s.first_query + query), first_key = static_cast<int>(key),
              keys = static_cast<int>(s.keys), window = static_cast<int>(problem.window),
              ahead = static_cast<int>(problem.ahead);
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const int position = first + i, k = first_key + across * j, behind = position - k;
        float score = scores[i][j] * problem.scale;
        if (problem.soft_cap > 0) {
          const float bent = tanhf(score / problem.soft_cap);
          if (slope != nullptr) (*slope)[i][j] = 1 - bent * bent;
          score = problem.soft_cap * bent;
        } else if (slope != nullptr) {
          (*slope)[i][j] = 1;
        }
        score += problem.rounds_alibi ? problem.scale * rounded_alibi(alibi, k) : -alibi * static_cast<float>(behind);
        score *= log2e;
        const bool sees = position < keys && k < keys && behind >= -ahead && (window == 0 || behind < window);
        scores[i][j] = sees ? score : -INFINITY;
      }
  }
  /// The factor by which dropout multiplies a probability.
  LACUNA_DEVICE float kept(const CausalSequence& s, std::int64_t head, std::int64_t query, std::int64_t key) const {
    if (problem.dropped_below == 0) return 1;
    const std::int64_t element = (head * problem.positions + s.first_query + query) * problem.positions + key;
    const auto sample = static_cast<std::uint64_t>(problem.first + s.index);
    return draw(problem.stream, sample, element) < problem.dropped_below ? 0 : problem.kept_scale;
  }
  /// Writes factor[i] · sums to rows `first` + i below `count`; `first` is the thread's.
  template <class B>
  LACUNA_DEVICE void write(const B& block, const TokenRows& to, const CausalSequence& s, std::int64_t head,
                           std::int64_t first, std::int64_t count, const float (&factor)[each],
                           const Sums<packs>& sums) const {
    T* const data = static_cast<T*>(to.data) + to.first_row(s.index) * to.stride + head * problem.head_dim;
    for_sums<packs>(block, problem.head_dim, sums, [&](int i, std::int64_t column, float sum) {
      if (first + i < count) data[(first + i) * to.stride + column] = static_cast<T>(factor[i] * sum);
    });
  }
};

/// A block has a tile of queries of one head.
template <class T, int packs>
struct CausalForward : CausalPass<T, packs> {
  TokenRows y;

  LACUNA_DEVICE void operator()(const Block<CausalForward>& block) const {
    const CausalProblem& a = this->problem;
    const std::int64_t task = block.index() / a.query_tiles, head = task % a.heads;
    const CausalSequence s = this->sequence(task / a.heads);
    const std::int64_t padded = y.rows_of(s.index, 0), first = block.index() % a.query_tiles * tile;
    if (first >= padded) return;
    const std::int64_t own = first + own_row(block), end = first < s.queries ? this->last_key(s, first) : 0;
    const int x = x_of(block);
    const auto q = this->rows(a.q, s, head, s.queries), k = this->rows(a.k, s, this->head_of_keys(head), s.keys),
               v = this->rows(a.v, s, this->head_of_keys(head), s.keys);
    auto& tiles = block.shared().tiles;
    Sums<packs> sums = {};
    RowSums of_row;
    for (std::int64_t key = this->first_tile(s, first); key < end; key += tile) {
      Scores p = {};
      multiply(block, block.shared().tiles, a.head_dim, q, first, k, key, p);
      this->finish(s, head, own, key + x, p);
#pragma unroll
      for (int i = 0; i < each; ++i) {
        const float shrink = of_row.add(i, p[i]);
#pragma unroll
        for (int j = 0; j < each; ++j) p[i][j] *= this->kept(s, head, own + i, key + x + across * j);
#pragma unroll
        for (int c = 0; c < packs; ++c)
#pragma unroll
          for (int e = 0; e < 4; ++e) sums[i][c][e] *= shrink;
      }
      accumulate<false>(block, tiles, a.head_dim, p, v, key, sums);
    }
    float factor[each];
#pragma unroll
    for (int i = 0; i < each; ++i) factor[i] = own + i < s.queries ? 1 / of_row.total[i] : 0;
    this->write(block, y, s, head, own, padded, factor, sums);
  }
};

/// Figures of each query that backward starts from, [sequences · heads, longest] each: the logarithm to base 2 of the
/// sum of the powers of its scores, and Σ p ∘ dp.
struct CausalStatistics {
  float *log_sums, *products;
};

template <class T, int packs>
struct CausalStatisticsPass : CausalPass<T, packs> {
  TokenRows dy;
  CausalStatistics to;

  LACUNA_DEVICE void operator()(const Block<CausalStatisticsPass>& block) const {
    const CausalProblem& a = this->problem;
    const std::int64_t task = block.index() / a.query_tiles, head = task % a.heads;
    const CausalSequence s = this->sequence(task / a.heads);
    const std::int64_t first = block.index() % a.query_tiles * tile, own = first + own_row(block);
    if (first >= s.queries) return;
    const int x = x_of(block);
    const auto q = this->rows(a.q, s, head, s.queries), k = this->rows(a.k, s, this->head_of_keys(head), s.keys);
    RowSums of_row;
    float products[each] = {};
    for (std::int64_t key = this->first_tile(s, first); key < this->last_key(s, first); key += tile) {
      Scores p = {}, dp = {};
      multiply(block, block.shared().tiles, a.head_dim, q, first, k, key, p);
      this->finish(s, head, own, key + x, p);
      if (a.v.data != nullptr)
        multiply(block, block.shared().tiles, a.head_dim, this->rows(dy, s, head, s.queries), first,
                 this->rows(a.v, s, this->head_of_keys(head), s.keys), key, dp);
#pragma unroll
      for (int i = 0; i < each; ++i) {
        const float shrink = of_row.add(i, p[i]);
        float sum = 0;
#pragma unroll
        for (int j = 0; j < each; ++j) sum += p[i][j] * this->kept(s, head, own + i, key + x + across * j) * dp[i][j];
        products[i] = products[i] * shrink + sum_of_lanes<across>(sum);
      }
    }
    if (x != 0) return;
    for (int i = 0; i < each && own + i < s.queries; ++i) {
      to.log_sums[task * a.longest + own + i] = of_row.log_sum(i);
      to.products[task * a.longest + own + i] = products[i] / of_row.total[i];
    }
  }
};

template <class T, int packs>
struct CausalBackwardPass : CausalPass<T, packs> {
  TokenRows dy;
  CausalStatistics statistics;

  /// p after dropout, and the gradients of scale · q·k, of the tile of queries `query` on and keys `key` on.
  template <class B>
  LACUNA_DEVICE void scores_of(const B& block, const CausalSequence& s, std::int64_t head, std::int64_t query,
                               std::int64_t key, Scores& p, Scores& ds) const {
    const CausalProblem& a = this->problem;
    const std::int64_t own = query + own_row(block), kv = this->head_of_keys(head);
    const int x = x_of(block);
    Scores slope;
    multiply(block, block.shared().tiles, a.head_dim, this->rows(a.q, s, head, s.queries), query,
             this->rows(a.k, s, kv, s.keys), key, p);
    this->finish(s, head, own, key + x, p, &slope);
    if (a.v.data != nullptr)
      multiply(block, block.shared().tiles, a.head_dim, this->rows(dy, s, head, s.queries), query,
               this->rows(a.v, s, kv, s.keys), key, ds);
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const std::int64_t row = (s.index * a.heads + head) * a.longest + own + i;
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const bool there = p[i][j] != -INFINITY;
        const float probability = there ? exp2f(p[i][j] - statistics.log_sums[row]) : 0;
        const float factor = there ? this->kept(s, head, own + i, key + x + across * j) : 0;
        ds[i][j] = there ? probability * (factor * ds[i][j] - statistics.products[row]) * slope[i][j] : 0;
        p[i][j] = factor * probability;
      }
    }
  }
};

/// dq = scale · ds·k. A block has a tile of queries of one head.
template <class T, int packs>
struct CausalQueryGradient : CausalBackwardPass<T, packs> {
  TokenRows dq;

  LACUNA_DEVICE void operator()(const Block<CausalQueryGradient>& block) const {
    const CausalProblem& a = this->problem;
    const std::int64_t task = block.index() / a.query_tiles, head = task % a.heads;
    const CausalSequence s = this->sequence(task / a.heads);
    const std::int64_t padded = dq.rows_of(s.index, 0), first = block.index() % a.query_tiles * tile;
    if (first >= padded) return;
    const std::int64_t end = first < s.queries ? this->last_key(s, first) : 0;
    auto& tiles = block.shared().tiles;
    Sums<packs> sums = {};
    for (std::int64_t key = this->first_tile(s, first); key < end; key += tile) {
      Scores p = {}, ds = {};
      this->scores_of(block, s, head, first, key, p, ds);
      accumulate<false>(block, tiles, a.head_dim, ds, this->rows(a.k, s, this->head_of_keys(head), s.keys), key, sums);
    }
    const float factor[each] = {a.scale, a.scale, a.scale, a.scale};
    this->write(block, dq, s, head, first + own_row(block), padded, factor, sums);
  }
};

/// dv = pᵀ·dy, or dk = scale · dsᵀ·q (`of_keys`). A block has a tile of keys and sums over the heads that share them.
template <class T, int packs, bool of_keys>
struct CausalKeyGradient : CausalBackwardPass<T, packs> {
  TokenRows to;

  LACUNA_DEVICE void operator()(const Block<CausalKeyGradient>& block) const {
    const CausalProblem& a = this->problem;
    const std::int64_t task = block.index() / a.key_tiles, kv = task % a.kv_heads, group = a.heads / a.kv_heads;
    const CausalSequence s = this->sequence(task / a.kv_heads);
    const std::int64_t padded = to.rows_of(s.index, 0), first = block.index() % a.key_tiles * tile;
    if (first >= padded) return;
    // The queries that see any of the keys
    const std::int64_t since = first - a.ahead - s.first_query, from = since > 0 ? since / tile * tile : 0;
    const std::int64_t last = first + tile - 1 + a.window - s.first_query;
    const std::int64_t end = first >= s.keys ? 0 : a.window == 0 || last > s.queries ? s.queries : last;
    auto& tiles = block.shared().tiles;
    Sums<packs> sums = {};
    for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head)
      for (std::int64_t query = from; query < end; query += tile) {
        Scores p = {}, ds = {};
        this->scores_of(block, s, head, query, first, p, ds);
        accumulate<true>(block, tiles, a.head_dim, of_keys ? ds : p,
                         this->rows(of_keys ? a.q : this->dy, s, head, s.queries), query, sums);
      }
    const float value = of_keys ? a.scale : 1.0F, factor[each] = {value, value, value, value};
    this->write(block, to, s, kv, first + own_row(block), padded, factor, sums);
  }
};

template <class F>
void with_causal_packs(DType type, std::int64_t head_dim, const F& f) {
  if (head_dim <= 2 * tile) return with_packs(type, head_dim, f);
  with_cuda_type(type, [&]<class T>(Type<T>) { f.template operator()<T, 4>(); });
}

template <class T, int packs>
void start_causal_backward(Stream stream, const CausalProblem& a, const CausalGradientRows& to) {
  const std::int64_t tasks = a.keys.count * a.heads, of_keys = a.keys.count * a.kv_heads;
  const CausalStatistics statistics{to.statistics, to.statistics + tasks * a.longest};
  run(stream, tasks * a.query_tiles, CausalStatisticsPass<T, packs>{{a}, to.dy, statistics});
  const CausalBackwardPass<T, packs> pass{{a}, to.dy, statistics};
  if (to.dq.data != nullptr) run(stream, tasks * a.query_tiles, CausalQueryGradient<T, packs>{pass, to.dq});
  if (to.dk.data != nullptr) run(stream, of_keys * a.key_tiles, CausalKeyGradient<T, packs, true>{pass, to.dk});
  if (to.dv.data != nullptr) run(stream, of_keys * a.key_tiles, CausalKeyGradient<T, packs, false>{pass, to.dv});
}

}  // namespace

void causal_forward(Stream stream, DType type, const CausalProblem& a, const TokenRows& y) {
  with_causal_packs(type, a.head_dim, [&]<class T, int packs>() {
    run(stream, a.keys.count * a.heads * a.query_tiles, CausalForward<T, packs>{{a}, y});
  });
}

void causal_backward(Stream stream, DType type, const CausalProblem& a, const CausalGradientRows& to) {
  with_causal_packs(type, a.head_dim, [&]<class T, int packs>() { start_causal_backward<T, packs>(stream, a, to); });
}

}  // namespace lacuna::cuda
