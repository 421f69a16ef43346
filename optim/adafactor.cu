#include "optim/adafactor_cuda.h"

#include "core/block.h"

namespace lacuna::cuda {
namespace {

LACUNA_DEVICE inline double squared(float x) { return static_cast<double>(x) * static_cast<double>(x); }

/// The step of an update that takes place.
struct Counted {
  const std::int64_t* step;
  const std::int32_t* finite;
  LACUNA_DEVICE bool updates() const { return finite == nullptr || *finite != 0; }
};

/// A warp a row.
struct RowMoments {
  static constexpr int threads = 256;
  AdafactorSettings settings;
  Counted counted;
  FactoredMomentsOnCuda what;
  LACUNA_DEVICE void operator()(const Block<RowMoments>& block) const {
    const std::int64_t r = block.index() * (threads / warp_size) + block.warp();
    if (r >= what.count * what.rows || !counted.updates()) return;
    const float* const g = what.gradient + r * what.columns;
    double sum = 0;
    for (std::int64_t c = block.lane(); c < what.columns; c += warp_size) sum += squared(g[c]);
    sum = sum_of_lanes(sum) + static_cast<double>(what.columns) * settings.eps;
    if (block.lane() == 0) what.row[r] = settings.moment(*counted.step)(what.row[r], sum, what.columns);
  }
};

/// A block has 32 columns of a matrix: lane and column are one, and the warps take rows in turn.
struct ColumnMoments {
  static constexpr int threads = 1024, warps = threads / warp_size;
  struct Shared {
    double sums[warps][warp_size];
  };
  AdafactorSettings settings;
  Counted counted;
  FactoredMomentsOnCuda what;
  std::int64_t blocks;  // of a matrix
  LACUNA_DEVICE void operator()(const Block<ColumnMoments>& block) const {
    const std::int64_t matrix = block.index() / blocks;
    const std::int64_t c = block.index() % blocks * warp_size + block.lane();
    double sum = 0;
    if (c < what.columns)
      for (std::int64_t r = block.warp(); r < what.rows; r += warps)
        sum += squared(what.gradient[(matrix * what.rows + r) * what.columns + c]);
    block.shared().sums[block.warp()][block.lane()] = sum;
    block.sync();
    if (block.warp() != 0 || c >= what.columns || !counted.updates()) return;
    double total = static_cast<double>(what.rows) * settings.eps;
    for (int warp = 0; warp < warps; ++warp) total += block.shared().sums[warp][block.lane()];
    float& moment = what.column[matrix * what.columns + c];
    moment = settings.moment(*counted.step)(moment, total, what.rows);
  }
};

/// A warp a matrix.
struct MeansOfRows {
  static constexpr int threads = 256;
  FactoredMomentsOnCuda what;
  LACUNA_DEVICE void operator()(const Block<MeansOfRows>& block) const {
    const std::int64_t i = block.index() * (threads / warp_size) + block.warp();
    if (i >= what.count) return;
    double sum = 0;
    for (std::int64_t r = block.lane(); r < what.rows; r += warp_size)
      sum += static_cast<double>(what.row[i * what.rows + r]);
    sum = sum_of_lanes(sum);
    if (block.lane() == 0) what.means[i] = static_cast<float>(sum / static_cast<double>(what.rows));
  }
};

/// A warp a row.
struct Divide {
  static constexpr int threads = 256;
  FactoredMomentsOnCuda what;
  LACUNA_DEVICE void operator()(const Block<Divide>& block) const {
    const std::int64_t r = block.index() * (threads / warp_size) + block.warp();
    if (r >= what.count * what.rows) return;
    const std::int64_t matrix = r / what.rows;
    const float share = what.row[r] / what.means[matrix];
    float* const g = what.gradient + r * what.columns;
    const float* const column = what.column + matrix * what.columns;
    for (std::int64_t c = block.lane(); c < what.columns; c += warp_size)
      g[c] = formula::factored_update(g[c], share, column[c]);
  }
};

std::int64_t blocks_of_warps(std::int64_t warps) { return divide_up(warps, std::int64_t{256 / warp_size}); }

}  // namespace

void update_factored_moments(Stream stream, const AdafactorSettings& settings, const std::int64_t* step,
                             const std::int32_t* finite, const FactoredMomentsOnCuda& what) {
  const Counted counted{step, finite};
  run(stream, blocks_of_warps(what.count * what.rows), RowMoments{settings, counted, what});
  const std::int64_t blocks = divide_up(what.columns, warp_size);
  run(stream, what.count * blocks, ColumnMoments{settings, counted, what, blocks});
  run(stream, blocks_of_warps(what.count), MeansOfRows{what});
}

void divide_by_factored_moments(Stream stream, const FactoredMomentsOnCuda& what) {
  run(stream, blocks_of_warps(what.count * what.rows), Divide{what});
}

}  // namespace lacuna::cuda
