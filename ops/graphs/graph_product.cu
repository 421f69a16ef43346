// Sums over the neighbours of nodes. A block has entries of a node and 256 columns, and its warps take the entries in
// turn. Sums of warps, and of a node's pieces, are added in order.
#include "ops/graphs/graph_product_cuda.h"

#include "ops/cuda/elements.h"
#include "ops/graphs/edge_pieces.h"

namespace lacuna::cuda {
namespace {

constexpr int columns_at_once = warp_size * 8;

template <class T>
struct SumRows {
  static constexpr int threads = 128;
  struct Shared {
    float sums[threads / warp_size][columns_at_once];
  };
  SumNeighbours what;
  std::int64_t chunks;

  LACUNA_DEVICE void operator()(const Block<SumRows>& block) const {
    const std::int64_t c = block.index() % chunks * columns_at_once + block.lane() * 8;
    Entries entries;
    if (!entries_of(what.of, block.index() / chunks, entries)) return;
    const Kept<T> x(what.x, what.rows * what.width);
    Eight sum{};
    for (std::int64_t e = entries.begin + block.warp(); e < entries.end; e += block.warps) {
      const std::int64_t n = what.of.ends == nullptr ? e : what.of.ends[e];
      float factor = what.scale == nullptr ? 1.0F : what.scale[n];
      if (what.values != nullptr) factor *= what.values[what.places == nullptr ? e : what.places[e]];
      if (c >= what.width) continue;
      const Eight row = x.at_row(n, what.width, c);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[i] += factor * row[i];
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) block.shared().sums[block.warp()][block.lane() * 8 + i] = sum[i];
    block.sync();
    if (block.warp() > 0 || c >= what.width) return;
    for (int w = 1; w < block.warps; ++w)
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[i] += block.shared().sums[w][block.lane() * 8 + i];
    if (entries.is_piece())
      return Written<float>(what.partial, what.of.pieces * what.width).set_row(entries.piece, what.width, c, sum);
    const float factor = what.scale == nullptr ? 1.0F : what.scale[entries.node];
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] *= factor;
    Written<T>(what.y, what.of.nodes * what.width).set_row(entries.node, what.width, c, sum);
  }
};

/// A block has the pieces of a node, and a thread a column.
template <class T>
struct Join {
  static constexpr int threads = 128;
  JoinPieces what;
  std::int64_t chunks;

  LACUNA_DEVICE void operator()(const Block<Join>& block) const {
    const std::int64_t first = block.index() / chunks, width = what.heads * what.size,
                       c = block.index() % chunks * threads + block.thread(), count = pieces_from(what.of, first);
    if (count == 0 || c >= width) return;
    float sum = 0;
    for (std::int64_t p = first; p < first + count; ++p)
      sum +=
          (what.factors == nullptr ? 1.0F : what.factors[p * what.heads + c / what.size]) * what.partial[p * width + c];
    const std::int64_t node = what.of.piece_nodes[2 * first];
    if (what.scale != nullptr) sum *= what.scale[node];
    static_cast<T*>(what.y)[node * width + c] = static_cast<T>(sum);
  }
};

template <class T>
struct DotRows {
  static constexpr int threads = 128;
  ValueGradient what;

  LACUNA_DEVICE void operator()(const Block<DotRows>& block) const {
    Entries entries;
    if (!entries_of(what.of, block.index(), entries)) return;
    const std::int64_t v = entries.node, count = what.of.nodes * what.width;
    const Kept<T> x(what.x, count), dy(what.dy, count);
    for (std::int64_t e = entries.begin + block.warp(); e < entries.end; e += block.warps) {
      const std::int64_t n = what.of.ends[e];
      float sum = 0;
      for (std::int64_t c = block.lane() * 8; c < what.width; c += columns_at_once) {
        const Eight a = dy.at_row(v, what.width, c), b = x.at_row(n, what.width, c);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += a[i] * b[i];
      }
      sum = sum_of_lanes(sum);
      if (what.scale != nullptr) sum *= what.scale[v] * what.scale[n];
      if (block.lane() == 0) what.dvalues[e] = sum;
    }
  }
};

template <class T>
struct SpreadRows {
  static constexpr int threads = 128;
  SpreadToEntries what;

  LACUNA_DEVICE void operator()(const Block<SpreadRows>& block) const {
    Entries entries;
    if (!entries_of(what.of, block.index(), entries)) return;
    const Kept<T> y(what.y, what.of.nodes * what.width);
    const Written<T> x(what.x, what.entries * what.width);
    for (std::int64_t e = entries.begin + block.warp(); e < entries.end; e += block.warps)
      for (std::int64_t c = block.lane() * 8; c < what.width; c += columns_at_once)
        x.set_row(e, what.width, c, y.at_row(entries.node, what.width, c));
  }
};

}  // namespace

void join_pieces(Stream stream, DType type, const JoinPieces& what) {
  if (what.of.pieces == 0) return;
  const std::int64_t chunks = divide_up(what.heads * what.size, 128);
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, what.of.pieces * chunks, Join<T>{what, chunks}); });
}
void sum_neighbours(Stream stream, DType type, const SumNeighbours& what) {
  const std::int64_t chunks = divide_up(what.width, columns_at_once);
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, items_of(what.of) * chunks, SumRows<T>{what, chunks}); });
  join_pieces(stream, type,
              {.of = what.of,
               .partial = what.partial,
               .factors = nullptr,
               .scale = what.scale,
               .y = what.y,
               .heads = 1,
               .size = what.width});
}
void value_gradient(Stream stream, DType type, const ValueGradient& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, items_of(what.of), DotRows<T>{what}); });
}
void spread_to_entries(Stream stream, DType type, const SpreadToEntries& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, items_of(what.of), SpreadRows<T>{what}); });
}

}  // namespace lacuna::cuda
