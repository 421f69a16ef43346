// Sums over the neighbours of nodes. A block has a node and 256 columns, and its warps take the node's entries in turn:
// degrees follow power laws, and one warp alone would be late with a hub. Sums of warps are added in order.
#include "ops/graphs/graph_product_cuda.h"

#include "ops/cuda/elements.h"

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
    const std::int64_t v = block.index() / chunks, c = block.index() % chunks * columns_at_once + block.lane() * 8;
    const Kept<T> x(what.x, what.rows * what.width);
    Eight sum{};
    for (std::int64_t e = what.of.starts[v] + block.warp(); e < what.of.starts[v + 1]; e += block.warps) {
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
    const float factor = what.scale == nullptr ? 1.0F : what.scale[v];
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] *= factor;
    Written<T>(what.y, what.of.nodes * what.width).set_row(v, what.width, c, sum);
  }
};

template <class T>
struct DotRows {
  static constexpr int threads = 128;
  ValueGradient what;

  LACUNA_DEVICE void operator()(const Block<DotRows>& block) const {
    const std::int64_t v = block.index(), count = what.of.nodes * what.width;
    const Kept<T> x(what.x, count), dy(what.dy, count);
    for (std::int64_t e = what.of.starts[v] + block.warp(); e < what.of.starts[v + 1]; e += block.warps) {
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
    const std::int64_t v = block.index();
    const Kept<T> y(what.y, what.of.nodes * what.width);
    const Written<T> x(what.x, what.entries * what.width);
    for (std::int64_t e = what.of.starts[v] + block.warp(); e < what.of.starts[v + 1]; e += block.warps)
      for (std::int64_t c = block.lane() * 8; c < what.width; c += columns_at_once)
        x.set_row(e, what.width, c, y.at_row(v, what.width, c));
  }
};

}  // namespace

void sum_neighbours(Stream stream, DType type, const SumNeighbours& what) {
  const std::int64_t chunks = divide_up(what.width, columns_at_once);
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, what.of.nodes * chunks, SumRows<T>{what, chunks}); });
}
void value_gradient(Stream stream, DType type, const ValueGradient& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, what.of.nodes, DotRows<T>{what}); });
}
void spread_to_entries(Stream stream, DType type, const SpreadToEntries& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, what.of.nodes, SpreadRows<T>{what}); });
}

}  // namespace lacuna::cuda
