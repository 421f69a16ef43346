#include "core/block.h"
#include "ops/cuda/block_sums.h"

namespace lacuna::cuda {
namespace {

/// A warp sums 32 columns: lane and column are one, and the threads of a block take blocks of partial sums in turn.
struct AddBlockSums {
  static constexpr int threads = 256, groups = threads / warp_size;
  struct Shared {
    float sums[groups][warp_size];
  };
  BlockSums what;

  LACUNA_DEVICE void operator()(const Block<AddBlockSums>& block) const {
    const std::int64_t column = block.index() * warp_size + block.lane();
    float sum = 0;
    if (column < what.count)
      for (std::int64_t b = block.warp(); b < what.blocks; b += groups) sum += what.partial[b * what.stride + column];
    block.shared().sums[block.warp()][block.lane()] = sum;
    block.sync();
    if (block.warp() != 0 || column >= what.count) return;
    float total = what.add ? what.to[column] : 0.0F;
#pragma unroll
    for (int group = 0; group < groups; ++group) total += block.shared().sums[group][block.lane()];
    what.to[column] = total;
  }
};

}  // namespace

void add_block_sums(Stream stream, const BlockSums& what) {
  run(stream, divide_up(what.count, warp_size), AddBlockSums{what});
}

}  // namespace lacuna::cuda
