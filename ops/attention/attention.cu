// Fused attention on a GPU: any head dimension up to 128, a bias, unequal lengths, dropout. Backward finds the sum of
// each row of scores before it uses the row, so that each row of probabilities sums to one for the q and k at hand, as
// on the CPU.
#include "ops/attention/attention_cuda.h"

#include "ops/attention/attention_tiles.h"

namespace lacuna::cuda {
namespace {

/// One head of one sample; `number` counts them.
struct Task {
  std::int64_t sample, head, number;
};

template <class T, int packs>
struct Pass {
  static constexpr int threads = block_threads, blocks_together = tiles_together<T, packs>;
  struct Shared {
    Tiles<T, packs> tiles;
  };
  AttentionProblem problem;

  template <class B>
  LACUNA_DEVICE Task task_of(const B& block, std::int64_t tiles) const {
    const std::int64_t number = block.index() / tiles;
    return {number / problem.heads, number % problem.heads, number};
  }
  /// Keys that the sample's queries see. Tokens of a sample are counted in int: 64 bits take twice the registers.
  LACUNA_DEVICE int keys_of(std::int64_t sample) const {
    return static_cast<int>(problem.key_lengths == nullptr ? problem.keys : problem.key_lengths[sample]);
  }
  LACUNA_DEVICE int queries_of(std::int64_t sample) const {
    return static_cast<int>(problem.q.offsets == nullptr ? problem.queries : problem.key_lengths[sample]);
  }
  LACUNA_DEVICE HeadRows<T> head(const TokenRows& rows, const Task& task, std::int64_t count) const {
    return {static_cast<const T*>(rows.data) + rows.first_row(task.sample) * rows.stride + task.head * problem.head_dim,
            rows.stride, count};
  }

  /// From q·k of queries `query` + i and keys `key` + 16·j to scores to base 2; -inf beyond `keys`.
  LACUNA_DEVICE void finish(const Task& task, int query, int queries, int key, int keys, Scores& scores) const {
    const T* bias = static_cast<const T*>(problem.bias);
    if (bias != nullptr)
      bias +=
          (problem.first + task.sample) % problem.bias_windows * problem.bias_window + task.head * problem.bias_head;
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const int k = key + across * j;
        scores[i][j] *= problem.scale * log2e;
        if (bias != nullptr && query + i < queries && k < keys)
          scores[i][j] += log2e * to_compute(bias[(query + i) * problem.bias_row + k]);
        if (k >= keys) scores[i][j] = -INFINITY;
      }
  }
  /// The factor by which dropout multiplies a probability.
  LACUNA_DEVICE float kept(const Task& task, int query, int key) const {
    if (problem.dropped_below == 0) return 1;
    const std::int64_t element = (task.head * problem.draw_rows + query) * problem.draw_columns + key;
    const auto sample = static_cast<std::uint64_t>(problem.first + task.sample);
    return draw(problem.stream, sample, element) < problem.dropped_below ? 0 : problem.kept_scale;
  }
  /// Writes factor[i] · sums to rows `first` + i below `count`; `first` is the thread's.
  template <class B>
  LACUNA_DEVICE void write(const B& block, const TokenRows& rows, const Task& task, int first, std::int64_t count,
                           const float (&factor)[each], const Sums<packs>& sums) const {
    T* const to = static_cast<T*>(rows.data) + rows.first_row(task.sample) * rows.stride + task.head * problem.head_dim;
    for_sums<packs>(block, problem.head_dim, sums, [&](int i, std::int64_t column, float sum) {
      if (first + i < count) to[(first + i) * rows.stride + column] = static_cast<T>(factor[i] * sum);
    });
  }
};

template <class T, int packs>
struct Forward : Pass<T, packs> {
  TokenRows y;

  LACUNA_DEVICE void operator()(const Block<Forward>& block) const {
    const AttentionProblem& a = this->problem;
    const Task task = this->task_of(block, a.query_tiles);
    const std::int64_t rows = y.rows_of(task.sample, a.queries);
    const int first = static_cast<int>(block.index() % a.query_tiles) * tile, own = first + own_row(block);
    if (first >= rows) return;
    const int keys = this->keys_of(task.sample), queries = this->queries_of(task.sample), x = x_of(block);
    const auto q = this->head(a.q, task, queries), k = this->head(a.k, task, keys), v = this->head(a.v, task, keys);
    auto& tiles = block.shared().tiles;
    Sums<packs> sums = {};
    RowSums of_row;
    for (int key = 0; key < keys; key += tile) {
      Scores p = {};
      multiply(block, block.shared().tiles, a.head_dim, q, first, k, key, p);
      this->finish(task, own, queries, key + x, keys, p);
#pragma unroll
      for (int i = 0; i < each; ++i) {
        const float shrink = of_row.add(i, p[i]);
#pragma unroll
        for (int j = 0; j < each; ++j) p[i][j] *= this->kept(task, own + i, key + x + across * j);
#pragma unroll
        for (int c = 0; c < packs; ++c)
#pragma unroll
          for (int e = 0; e < 4; ++e) sums[i][c][e] *= shrink;
      }
      accumulate<false>(block, tiles, a.head_dim, p, v, key, sums);
    }
    float factor[each];
#pragma unroll
    for (int i = 0; i < each; ++i) factor[i] = own + i < queries && keys > 0 ? 1 / of_row.total[i] : 0;
    this->write(block, y, task, own, rows, factor, sums);
  }
};

/// Figures of each query that backward starts from, [samples · heads, queries] each: the logarithm to base 2 of the sum
/// of the powers of its scores, and Σ p ∘ dp.
struct RowStatistics {
  float *log_sums, *products;
};

template <class T, int packs>
struct Statistics : Pass<T, packs> {
  TokenRows dy;
  RowStatistics to;

  LACUNA_DEVICE void operator()(const Block<Statistics>& block) const {
    const AttentionProblem& a = this->problem;
    const Task task = this->task_of(block, a.query_tiles);
    const int keys = this->keys_of(task.sample), queries = this->queries_of(task.sample), x = x_of(block);
    const int first = static_cast<int>(block.index() % a.query_tiles) * tile, own = first + own_row(block);
    if (first >= queries) return;
    const auto q = this->head(a.q, task, queries), k = this->head(a.k, task, keys);
    RowSums of_row;
    float products[each] = {};
    for (int key = 0; key < keys; key += tile) {
      Scores p = {}, dp = {};
      multiply(block, block.shared().tiles, a.head_dim, q, first, k, key, p);
      this->finish(task, own, queries, key + x, keys, p);
      if (a.v.data != nullptr)
        multiply(block, block.shared().tiles, a.head_dim, this->head(dy, task, queries), first,
                 this->head(a.v, task, keys), key, dp);
#pragma unroll
      for (int i = 0; i < each; ++i) {
        const float shrink = of_row.add(i, p[i]);
        float sum = 0;
#pragma unroll
        for (int j = 0; j < each; ++j) sum += p[i][j] * this->kept(task, own + i, key + x + across * j) * dp[i][j];
        products[i] = products[i] * shrink + sum_of_lanes<across>(sum);
      }
    }
    if (x != 0) return;
    for (int i = 0; i < each && own + i < queries; ++i) {
      to.log_sums[task.number * a.queries + own + i] = of_row.log_sum(i);
      to.products[task.number * a.queries + own + i] = products[i] / of_row.total[i];
    }
  }
};

template <class T, int packs>
struct BackwardPass : Pass<T, packs> {
  TokenRows dy;
  RowStatistics statistics;

  /// p after dropout, and ds = p ∘ (dp - Σ p ∘ dp) with dp = dy·vᵀ, of the tile of queries `query` on and keys `key`
  /// on.
  template <class B>
  LACUNA_DEVICE void scores_of(const B& block, const Task& task, int query, int queries, int key, int keys, Scores& p,
                               Scores& ds) const {
    const AttentionProblem& a = this->problem;
    const int own = query + own_row(block), x = x_of(block);
    multiply(block, block.shared().tiles, a.head_dim, this->head(a.q, task, queries), query,
             this->head(a.k, task, keys), key, p);
    this->finish(task, own, queries, key + x, keys, p);
    if (a.v.data != nullptr)
      multiply(block, block.shared().tiles, a.head_dim, this->head(dy, task, queries), query,
               this->head(a.v, task, keys), key, ds);
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const std::int64_t row = task.number * a.queries + own + i;
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const bool there = own + i < queries && key + x + across * j < keys;
        const float probability = there ? exp2f(p[i][j] - statistics.log_sums[row]) : 0;
        const float factor = there ? this->kept(task, own + i, key + x + across * j) : 0;
        ds[i][j] = there ? probability * (factor * ds[i][j] - statistics.products[row]) : 0;
        p[i][j] = factor * probability;
      }
    }
  }
};

/// dq = scale · ds·k.
template <class T, int packs>
struct QueryGradient : BackwardPass<T, packs> {
  TokenRows dq;
  std::int64_t tiles_of_rows;  // of a sample

  LACUNA_DEVICE void operator()(const Block<QueryGradient>& block) const {
    const AttentionProblem& a = this->problem;
    const Task task = this->task_of(block, tiles_of_rows);
    const std::int64_t rows = dq.rows_of(task.sample, dq.rows_per_sample);
    const int first = static_cast<int>(block.index() % tiles_of_rows) * tile;
    if (first >= rows) return;
    const int keys = this->keys_of(task.sample), queries = this->queries_of(task.sample);
    auto& tiles = block.shared().tiles;
    Sums<packs> sums = {};
    for (int key = 0; first < queries && key < keys; key += tile) {
      Scores p = {}, ds = {};
      this->scores_of(block, task, first, queries, key, keys, p, ds);
      accumulate<false>(block, tiles, a.head_dim, ds, this->head(a.k, task, keys), key, sums);
    }
    const float factor[each] = {a.scale, a.scale, a.scale, a.scale};
    this->write(block, dq, task, first + own_row(block), rows, factor, sums);
  }
};

/// dv = pᵀ·dy, dk = scale · dsᵀ·q.
template <class T, int packs>
struct KeyGradient : BackwardPass<T, packs> {
  TokenRows dk, dv;

  LACUNA_DEVICE void operator()(const Block<KeyGradient>& block) const {
    const AttentionProblem& a = this->problem;
    const Task task = this->task_of(block, a.key_tiles);
    const std::int64_t rows = (dk.data != nullptr ? dk : dv).rows_of(task.sample, a.keys);
    const int first = static_cast<int>(block.index() % a.key_tiles) * tile;
    if (first >= rows) return;
    const int keys = this->keys_of(task.sample), queries = this->queries_of(task.sample);
    auto& tiles = block.shared().tiles;
    Sums<packs> dk_sums = {}, dv_sums = {};
    for (int query = 0; first < keys && query < queries; query += tile) {
      Scores p = {}, ds = {};
      this->scores_of(block, task, query, queries, first, keys, p, ds);
      if (dv.data != nullptr)
        accumulate<true>(block, tiles, a.head_dim, p, this->head(this->dy, task, queries), query, dv_sums);
      if (dk.data != nullptr)
        accumulate<true>(block, tiles, a.head_dim, ds, this->head(a.q, task, queries), query, dk_sums);
    }
    const float one[each] = {1, 1, 1, 1}, scale[each] = {a.scale, a.scale, a.scale, a.scale};
    if (dv.data != nullptr) this->write(block, dv, task, first + own_row(block), rows, one, dv_sums);
    if (dk.data != nullptr) this->write(block, dk, task, first + own_row(block), rows, scale, dk_sums);
  }
};

/// Adds ds to bias_sums [W, heads or 1, queries or 1, keys]. A block has a tile of one matrix of it and adds what each
/// sample and head gives in order, so that the bits do not depend on how many samples one call has.
template <class T, int packs>
struct BiasGradient : BackwardPass<T, packs> {
  float* bias_sums;

  LACUNA_DEVICE void operator()(const Block<BiasGradient>& block) const {
    const AttentionProblem& a = this->problem;
    const bool one_head = a.bias_head == 0, one_row = a.bias_row == 0;
    const std::int64_t tiles = (one_row ? 1 : a.query_tiles) * a.key_tiles, matrices = one_head ? 1 : a.heads;
    const std::int64_t matrix = block.index() / tiles, at = block.index() % tiles, window = matrix / matrices;
    const int first = static_cast<int>(at / a.key_tiles) * tile, key = static_cast<int>(at % a.key_tiles) * tile;
    float* const to = bias_sums + window * a.bias_window + matrix % matrices * a.bias_head;
    auto& shared = block.shared().tiles.sums;
    const std::int64_t begin = (window + a.bias_windows - a.first % a.bias_windows) % a.bias_windows;
    for (std::int64_t sample = begin; sample < a.samples; sample += a.bias_windows) {
      const int queries = static_cast<int>(a.queries), keys = this->keys_of(sample),
                end = one_row ? queries : first + 1;
      if (key >= keys) continue;
      for (std::int64_t h = 0; h < (one_head ? a.heads : 1); ++h) {
        const std::int64_t head = one_head ? h : matrix % matrices;
        const Task task{sample, head, sample * a.heads + head};
        for (int query = first; query < end; query += tile) {
          Scores p = {}, ds = {};
          this->scores_of(block, task, query, queries, key, keys, p, ds);
          if (one_row)
            add_to_row(block, ds, key, to, shared);
          else
            add_to_tile(block, ds, query + own_row(block), key + x_of(block), to);
        }
      }
    }
  }

 private:
  LACUNA_DEVICE void add_to_tile(const Block<BiasGradient>&, const Scores& ds, int query, int key, float* to) const {
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const int k = key + across * j;
        if (query + i < this->problem.queries && k < this->problem.keys)
          to[(query + i) * this->problem.bias_row + k] += ds[i][j];
      }
  }
  LACUNA_DEVICE void add_to_row(const Block<BiasGradient>& block, const Scores& ds, int key, float* to,
                                float (&shared)[tile][tile + 4]) const {
    block.sync();  // all have read the last product
    share(block, ds, shared);
    block.sync();
    if (block.thread() < tile && key + block.thread() < this->problem.keys) {
      float sum = to[key + block.thread()];
      for (int i = 0; i < tile; ++i) sum += shared[i][block.thread()];
      to[key + block.thread()] = sum;
    }
    block.sync();
  }
};

template <class T, int packs>
void start_backward(Stream stream, const AttentionProblem& a, const AttentionGradientRows& to) {
  const std::int64_t tasks = a.samples * a.heads;
  const RowStatistics statistics{to.statistics, to.statistics + tasks * a.queries};
  run(stream, tasks * a.query_tiles, Statistics<T, packs>{{a}, to.dy, statistics});
  const BackwardPass<T, packs> pass{{a}, to.dy, statistics};
  if (to.dq.data != nullptr) {
    const std::int64_t tiles = (to.dq_rows + tile - 1) / tile;
    run(stream, tasks * tiles, QueryGradient<T, packs>{pass, to.dq, tiles});
  }
  if (to.dk.data != nullptr || to.dv.data != nullptr)
    run(stream, tasks * a.key_tiles, KeyGradient<T, packs>{pass, to.dk, to.dv});
  if (to.bias_sums != nullptr) {
    const std::int64_t matrices = a.bias_windows * (a.bias_head == 0 ? 1 : a.heads);
    run(stream, matrices * (a.bias_row == 0 ? 1 : a.query_tiles) * a.key_tiles,
        BiasGradient<T, packs>{pass, to.bias_sums});
  }
}

/// to = Σ parts, in order.
template <class T>
struct SumOfParts {
  static constexpr int threads = 256;
  const float* parts;  // [count of parts, elements]
  T* to;               // [elements]
  std::int64_t count, elements;

  LACUNA_DEVICE void operator()(const Block<SumOfParts>& block) const {
    const std::int64_t i = block.index() * threads + block.thread();
    if (i >= elements) return;
    float sum = 0;
    for (std::int64_t part = 0; part < count; ++part) sum += parts[part * elements + i];
    to[i] = static_cast<T>(sum);
  }
};

}  // namespace

void attention_forward(Stream stream, DType type, const AttentionProblem& a, const TokenRows& y) {
  with_packs(type, a.head_dim, [&]<class T, int packs>() {
    run(stream, a.samples * a.heads * a.query_tiles, Forward<T, packs>{{a}, y});
  });
}

void attention_backward(Stream stream, DType type, const AttentionProblem& a, const AttentionGradientRows& to) {
  with_packs(type, a.head_dim, [&]<class T, int packs>() { start_backward<T, packs>(stream, a, to); });
}

void attention_sum_bias(Stream stream, DType type, const float* parts, std::int64_t count, std::int64_t elements,
                        void* to) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(elements, SumOfParts<T>::threads),
        SumOfParts<T>{parts, static_cast<T*>(to), count, elements});
  });
}

}  // namespace lacuna::cuda
