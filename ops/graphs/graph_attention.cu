// Attention over the edges of a graph. A block has a head and entries of a node, and its warps take the entries in
// turn. Sums of threads, of warps and of a node's pieces are added in order.
#include "ops/graphs/graph_attention_cuda.h"

#include "core/math.h"
#include "core/random.h"
#include "ops/cuda/elements.h"
#include "ops/graphs/edge_pieces.h"

#include <cmath>

namespace lacuna::cuda {
namespace {

constexpr int columns_at_once = warp_size * 8;

/// Elements [c, c + 8) of one head of a row; 0 behind the head's end.
template <class T>
LACUNA_DEVICE Eight head_at(const void* values, std::int64_t row, std::int64_t head, std::int64_t heads,
                            std::int64_t size, std::int64_t c) {
  const T* const from = static_cast<const T*>(values) + (row * heads + head) * size;
  Eight eight;
#pragma unroll
  for (int i = 0; i < 8; ++i) eight[i] = c + i < size ? to_compute(from[c + i]) : 0.0F;
  return eight;
}
template <class T>
LACUNA_DEVICE void set_head(void* values, std::int64_t row, std::int64_t head, std::int64_t heads, std::int64_t size,
                            std::int64_t c, const Eight& eight) {
  T* const to = static_cast<T*>(values) + (row * heads + head) * size;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (c + i < size) to[c + i] = static_cast<T>(eight[i]);
}

struct EdgeWeights {
  GraphAttentionCall what;
  std::int64_t head;
  RandomStream stream;

  LACUNA_DEVICE EdgeWeights(const GraphAttentionCall& call, std::int64_t of_head)
      : what(call), head(of_head), stream(call.stream.now()) {}
  LACUNA_DEVICE float raw(std::int64_t target, std::int64_t source) const {
    return what.targets[target * what.heads + head] + what.sources[source * what.heads + head];
  }
  LACUNA_DEVICE float slope_at(float raw_score) const { return raw_score > 0 ? 1.0F : what.slope; }
  LACUNA_DEVICE float score(float raw_score) const { return raw_score * slope_at(raw_score); }
  LACUNA_DEVICE float weight(float raw_score, std::int64_t target) const {
    return math::exp(score(raw_score) - what.normalizers[target * what.heads + head]);
  }
  /// The factor of dropout of a weight.
  LACUNA_DEVICE float factor(std::int64_t target, std::int64_t source) const {
    if (what.dropped_below == 0) return 1.0F;
    const auto draws = static_cast<std::uint64_t>((what.heads + 3) / 4);
    const std::uint64_t pair = static_cast<std::uint64_t>(target) * static_cast<std::uint64_t>(what.of.nodes) +
                               static_cast<std::uint64_t>(source);
    const std::array<std::uint32_t, 4> four = stream.draw(pair * draws + static_cast<std::uint64_t>(head / 4));
    return four[static_cast<std::size_t>(head % 4)] < what.dropped_below ? 0.0F : what.kept_scale;
  }
};

constexpr int attention_threads = 128, attention_warps = attention_threads / warp_size;
struct AttentionShared {
  float sums[attention_warps][columns_at_once];
  float reduced[attention_warps];
  double terms[attention_warps][4];
};

/// Adds the sums of all warps to those of the first, which alone has the result.
template <class K>
LACUNA_DEVICE void add_warps(const Block<K>& block, Eight& sum) {
  auto& sums = block.shared().sums;
  block.sync();
#pragma unroll
  for (int i = 0; i < 8; ++i) sums[block.warp()][block.lane() * 8 + i] = sum[i];
  block.sync();
  if (block.warp() > 0) return;
  for (int w = 1; w < attention_warps; ++w)
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] += sums[w][block.lane() * 8 + i];
}

/// Sets y, of the node or the piece, to Σ weight(n) · rows[n] over the entries, whose other end is n.
template <class T, class K, class F>
LACUNA_DEVICE void weigh_rows(const Block<K>& block, const GraphAttentionCall& what, const Entries& entries,
                              std::int64_t head, const void* rows, const F& weight) {
  for (std::int64_t first = 0; first < what.size; first += columns_at_once) {
    const std::int64_t c = first + block.lane() * 8;
    Eight total{};
    for (std::int64_t e = entries.begin + block.warp(); e < entries.end; e += block.warps) {
      const std::int64_t n = what.of.ends[e];
      const float factor = weight(n);
      const Eight row = head_at<T>(rows, n, head, what.heads, what.size, c);
#pragma unroll
      for (int i = 0; i < 8; ++i) total[i] += factor * row[i];
    }
    add_warps(block, total);
    if (block.warp() > 0) continue;
    if (entries.is_piece())
      set_head<float>(what.partial, entries.piece, head, what.heads, what.size, c, total);
    else
      set_head<T>(what.y, entries.node, head, what.heads, what.size, c, total);
  }
}

/// A node's weights are exp(score - normalizer), those of a piece exp(score - its largest) until pieces are joined.
template <class T>
struct Attend {
  static constexpr int threads = attention_threads;
  using Shared = AttentionShared;
  GraphAttentionCall what;

  LACUNA_DEVICE void operator()(const Block<Attend>& block) const {
    const std::int64_t k = block.index() % what.heads;
    Entries entries;
    if (!entries_of(what.of, block.index() / what.heads, entries)) return;
    const std::int64_t t = entries.node;
    const EdgeWeights edges(what, k);
    float largest = -INFINITY, sum = 0;
    for (std::int64_t e = entries.begin + block.thread(); e < entries.end; e += threads)
      largest = Larger{}(largest, edges.score(edges.raw(t, what.of.ends[e])));
    largest = joined_of_block(block, largest, block.shared().reduced, Larger{});
    for (std::int64_t e = entries.begin + block.thread(); e < entries.end; e += threads)
      sum += math::exp(edges.score(edges.raw(t, what.of.ends[e])) - largest);
    block.sync();
    sum = joined_of_block(block, sum, block.shared().reduced, Plus{});
    const float normalizer = entries.begin < entries.end ? largest + logf(sum) : 0.0F;
    const float base = entries.is_piece() ? largest : normalizer;
    if (block.thread() == 0 && !entries.is_piece()) what.normalizers[t * what.heads + k] = normalizer;
    if (block.thread() == 0 && entries.is_piece()) {
      what.extremes[entries.piece * what.heads + k] = largest;
      what.extremes[(what.of.pieces + entries.piece) * what.heads + k] = sum;
    }
    weigh_rows<T>(block, what, entries, k, what.h,
                  [&](std::int64_t s) { return math::exp(edges.score(edges.raw(t, s)) - base) * edges.factor(t, s); });
  }
};

/// Sets the normalizers of nodes with pieces, and in place of each piece's largest score the factor of its sums. A
/// thread has a node and a head.
struct JoinNormalizers {
  static constexpr int threads = 128;
  GraphAttentionCall what;

  LACUNA_DEVICE void operator()(const Block<JoinNormalizers>& block) const {
    const std::int64_t at = block.global_thread(), heads = what.heads, first = at / heads, k = at % heads;
    const std::int64_t count = first < what.of.pieces ? pieces_from(what.of, first) : 0;
    if (count == 0) return;
    float* const of_pieces = what.extremes + first * heads + k;
    const float* const sums = of_pieces + what.of.pieces * heads;
    float largest = -INFINITY, sum = 0;
    for (std::int64_t i = 0; i < count; ++i) largest = Larger{}(largest, of_pieces[i * heads]);
    for (std::int64_t i = 0; i < count; ++i) sum += sums[i * heads] * math::exp(of_pieces[i * heads] - largest);
    const float normalizer = largest + logf(sum);
    what.normalizers[what.of.piece_nodes[2 * first] * heads + k] = normalizer;
    for (std::int64_t i = 0; i < count; ++i) of_pieces[i * heads] = math::exp(of_pieces[i * heads] - normalizer);
  }
};

template <class T>
LACUNA_DEVICE float dot_of_heads(const GraphAttentionCall& what, std::int64_t target, std::int64_t source,
                                 std::int64_t head, int lane) {
  float sum = 0;
  for (std::int64_t c = lane * 8; c < what.size; c += columns_at_once) {
    const Eight a = head_at<T>(what.h, source, head, what.heads, what.size, c),
                b = head_at<T>(what.dy, target, head, what.heads, what.size, c);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += a[i] * b[i];
  }
  return sum_of_lanes(sum);
}

/// From the sums over a node's entries, as on the CPU.
LACUNA_DEVICE inline void set_target_gradient(const GraphAttentionCall& what, std::int64_t target, std::int64_t head,
                                              const double* terms) {
  const double mean = terms[0] > 0 ? terms[1] / terms[0] : 0;
  what.means[target * what.heads + head] = static_cast<float>(mean);
  what.dscores[target * what.heads + head] = static_cast<float>(terms[2] - mean * terms[3]);
}

template <class T>
struct ByTarget {
  static constexpr int threads = attention_threads;
  using Shared = AttentionShared;
  GraphAttentionCall what;

  LACUNA_DEVICE void operator()(const Block<ByTarget>& block) const {
    const std::int64_t k = block.index() % what.heads;
    Entries entries;
    if (!entries_of(what.of, block.index() / what.heads, entries)) return;
    const std::int64_t t = entries.node;
    const EdgeWeights edges(what, k);
    double terms[4] = {};
    for (std::int64_t e = entries.begin + block.warp(); e < entries.end; e += block.warps) {
      const std::int64_t s = what.of.ends[e];
      const float raw = edges.raw(t, s), weight = edges.weight(raw, t);
      const float product = weight * edges.factor(t, s) * dot_of_heads<T>(what, t, s, k, block.lane());
      const float slope = edges.slope_at(raw) - edges.slope_at(edges.raw(t, what.of.ends[what.of.starts[t]]));
      terms[0] += static_cast<double>(weight);
      terms[1] += static_cast<double>(product);
      terms[2] += static_cast<double>(product * slope);
      terms[3] += static_cast<double>(weight * slope);
    }
    if (block.lane() == 0)
      for (int i = 0; i < 4; ++i) block.shared().terms[block.warp()][i] = terms[i];
    block.sync();
    if (block.thread() > 0) return;
    for (int w = 1; w < block.warps; ++w)
      for (int i = 0; i < 4; ++i) terms[i] += block.shared().terms[w][i];
    if (!entries.is_piece()) return set_target_gradient(what, t, k, terms);
    for (int i = 0; i < 4; ++i) what.terms[(entries.piece * what.heads + k) * 4 + i] = terms[i];
  }
};

/// A thread has a node with pieces and a head.
struct JoinTargets {
  static constexpr int threads = 128;
  GraphAttentionCall what;

  LACUNA_DEVICE void operator()(const Block<JoinTargets>& block) const {
    const std::int64_t at = block.global_thread(), first = at / what.heads, k = at % what.heads;
    const std::int64_t count = first < what.of.pieces ? pieces_from(what.of, first) : 0;
    if (count == 0) return;
    double terms[4] = {};
    for (std::int64_t p = first; p < first + count; ++p)
      for (int i = 0; i < 4; ++i) terms[i] += what.terms[(p * what.heads + k) * 4 + i];
    set_target_gradient(what, what.of.piece_nodes[2 * first], k, terms);
  }
};

template <class T>
struct BySource {
  static constexpr int threads = attention_threads;
  using Shared = AttentionShared;
  GraphAttentionCall what;

  LACUNA_DEVICE void operator()(const Block<BySource>& block) const {
    const std::int64_t k = block.index() % what.heads;
    Entries entries;
    if (!entries_of(what.of, block.index() / what.heads, entries)) return;
    const std::int64_t s = entries.node;
    const EdgeWeights edges(what, k);
    float dscore = 0;
    for (std::int64_t e = entries.begin + block.warp(); e < entries.end; e += block.warps) {
      const std::int64_t t = what.of.ends[e];
      const float raw = edges.raw(t, s);
      const float product = edges.factor(t, s) * dot_of_heads<T>(what, t, s, k, block.lane());
      dscore += edges.weight(raw, t) * (product - what.means[t * what.heads + k]) * edges.slope_at(raw);
    }
    if (block.lane() == 0) block.shared().reduced[block.warp()] = dscore;
    block.sync();
    if (block.thread() == 0) {
      for (int w = 1; w < block.warps; ++w) dscore += block.shared().reduced[w];
      (entries.is_piece() ? what.partial_dscores + entries.piece * what.heads : what.dscores + s * what.heads)[k] =
          dscore;
    }
    if (what.y == nullptr) return;
    weigh_rows<T>(block, what, entries, k, what.dy,
                  [&](std::int64_t t) { return edges.weight(edges.raw(t, s), t) * edges.factor(t, s); });
  }
};

/// A warp has a node and a head.
template <class T>
struct ScoreNodes {
  static constexpr int threads = 128;
  NodeScoreCall what;

  LACUNA_DEVICE void operator()(const Block<ScoreNodes>& block) const {
    const std::int64_t at = block.global_thread() / warp_size;
    if (at >= what.nodes * what.heads) return;
    const std::int64_t k = at % what.heads;
    float sum = 0;
    for (std::int64_t c = block.lane() * 8; c < what.size; c += columns_at_once) {
      const Eight row = head_at<T>(what.h, at / what.heads, k, what.heads, what.size, c);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (c + i < what.size) sum += row[i] * what.vector[k * what.size + c + i];
    }
    sum = sum_of_lanes(sum);
    if (block.lane() == 0) what.scores[at] = sum;
  }
};

/// A thread has an element.
template <class T>
struct AddScoredVector {
  static constexpr int threads = 256;
  NodeScoreCall what;

  LACUNA_DEVICE void operator()(const Block<AddScoredVector>& block) const {
    const std::int64_t width = what.heads * what.size, i = block.global_thread();
    if (i >= what.nodes * width) return;
    T* const to = static_cast<T*>(what.dh) + i;
    *to = static_cast<T>(to_compute(*to) + what.scores[i / what.size] * what.vector[i % width]);
  }
};

/// A block has a part of the nodes and as many columns as threads.
template <class T>
struct SumScoredRows {
  static constexpr int threads = 128;
  NodeScoreCall what;
  std::int64_t chunks;

  LACUNA_DEVICE void operator()(const Block<SumScoredRows>& block) const {
    const std::int64_t width = what.heads * what.size, part = block.index() / chunks,
                       c = block.index() % chunks * threads + block.thread();
    if (c >= width) return;
    float sum = 0;
    for (std::int64_t v = what.nodes * part / what.parts; v < what.nodes * (part + 1) / what.parts; ++v)
      sum += what.scores[v * what.heads + c / what.size] * to_compute(static_cast<const T*>(what.h)[v * width + c]);
    what.partial[part * width + c] = sum;
  }
};

template <template <class> class K>
void run_for_heads(Stream stream, DType type, const GraphAttentionCall& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, items_of(what.of) * what.heads, K<T>{what}); });
}
template <class K>
void run_for_pieces(Stream stream, const GraphAttentionCall& what) {
  if (what.of.pieces > 0) run(stream, divide_up(what.of.pieces * what.heads, K::threads), K{what});
}
JoinPieces sums_of_rows(const GraphAttentionCall& what) {
  return {.of = what.of,
          .partial = what.partial,
          .factors = what.extremes,
          .scale = nullptr,
          .y = what.y,
          .heads = what.heads,
          .size = what.size};
}

}  // namespace

void attend_to_neighbours(Stream stream, DType type, const GraphAttentionCall& what) {
  run_for_heads<Attend>(stream, type, what);
  run_for_pieces<JoinNormalizers>(stream, what);
  join_pieces(stream, type, sums_of_rows(what));
}
void attention_by_target(Stream stream, DType type, const GraphAttentionCall& what) {
  run_for_heads<ByTarget>(stream, type, what);
  run_for_pieces<JoinTargets>(stream, what);
}
void attention_by_source(Stream stream, DType type, const GraphAttentionCall& what) {
  run_for_heads<BySource>(stream, type, what);
  join_pieces(stream, DType::f32,
              {.of = what.of,
               .partial = what.partial_dscores,
               .factors = nullptr,
               .scale = nullptr,
               .y = what.dscores,
               .heads = what.heads,
               .size = 1});
  if (what.y != nullptr) join_pieces(stream, type, sums_of_rows(what));
}
void make_node_scores(Stream stream, DType type, const NodeScoreCall& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(what.nodes * what.heads, ScoreNodes<T>::threads / warp_size), ScoreNodes<T>{what});
  });
}
void add_scored_vector(Stream stream, DType type, const NodeScoreCall& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(what.nodes * what.heads * what.size, AddScoredVector<T>::threads), AddScoredVector<T>{what});
  });
}
void sum_scored_rows(Stream stream, DType type, const NodeScoreCall& what) {
  const std::int64_t chunks = divide_up(what.heads * what.size, 128);
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, what.parts * chunks, SumScoredRows<T>{what, chunks}); });
}

}  // namespace lacuna::cuda
