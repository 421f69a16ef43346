// The choice of regions to recompute, from the graph of a step that recomputes nothing.
#pragma once

#include "autograd/plan/step_graph.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lacuna {

/// One way to hold a tensor.
struct TensorWay {
  MemoryPlan::Choice choice{};
  std::int64_t bytes = 0;  // from birth
  std::int64_t later =
      0;            // from the first use, in addition: back from the store; negative: not rematerialized any more
  double cost = 0;  // in seconds, with what its noise is worth
};

struct RegionChoice {
  std::vector<std::string> regions{};
  std::int64_t bytes = 0;  // predicted
  double seconds = 0;      // predicted, of a step, with what its noise is worth
};

/// The ways of a tensor; `leaves`: those of an input or output of a recomputed region, which is held whole.
using WaysOf = std::function<std::vector<TensorWay>(const GraphTensor&, bool leaves)>;
using CountBytes = std::function<std::int64_t(const StepBytes&)>;

/// Sets of regions whose steps are predicted to take at most `budget` bytes, the cheapest first; then those of steps
/// that take more, by their bytes.
///
/// A byte of a tensor has a price, from high to low. At each price, tensors take their cheapest way, and regions are
/// added until the step fits: the one that frees the most bytes per second first. A region is a block, a part of one,
/// or a run of blocks that grows by one. Then regions that the step fits without are dropped.
std::vector<RegionChoice> choose_regions(const StepGraph& graph, const WaysOf& ways, const CountBytes& count,
                                         std::int64_t budget);

}  // namespace lacuna
