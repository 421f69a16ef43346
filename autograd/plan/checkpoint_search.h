// Which blocks to recompute, whole, in parts or several as one: a shortest path over the blocks of a model.
#pragma once

#include "autograd/plan/step_graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna {

struct PlannerOptions;

class CheckpointSearch {
 public:
  /// `graph` is of a step that recomputes nothing, with sensitivities where tensors are quantized. `step_seconds`: what
  /// a variance of 1 costs.
  CheckpointSearch(const StepGraph& graph, const PlannerOptions& options, double step_seconds);

  struct Path {
    std::vector<std::string> regions;
    std::int64_t bytes = 0;
    double cost = 0;  // seconds of recomputation, and of a step times the variance that quantization adds
  };
  /// The cheapest paths within the budget, by the graph's prediction, where each tensor is held in the bits that cost
  /// least at so much per byte.
  std::vector<Path> best(double price, std::int64_t budget) const;
  /// Prices to try: from that which quantizes nothing to that which leaves the fewest bits.
  std::vector<double> prices() const;
  /// Regions that cover all blocks alike: as one, in equal runs, by their parts, and with parts within them.
  std::vector<std::vector<std::string>> uniform() const;

  /// `7 of 12 blocks recomputed`, and what else.
  static std::string describe(const StepGraph& graph, const std::vector<std::string>& regions);

 private:
  struct Block {
    const GraphRegion* region;
    std::vector<const GraphRegion*> parts;
    std::vector<std::size_t> link;  // tensors that the block before makes and this one reads
  };
  /// Blocks first to before end, and what of them is recomputed.
  struct Option {
    std::size_t first, end;
    std::vector<std::string> regions;
    double seconds = 0;
  };
  struct Holding {
    std::int64_t bytes;
    double cost;
  };
  struct Effect {
    std::int64_t bytes = 0, highest = 0;  // more saved than in the recorded step; the total while these blocks run
    double cost = 0;
  };
  static std::vector<Block> blocks_of(const StepGraph& graph);
  std::vector<Option> options() const;
  std::vector<Holding> holdings(double price) const;
  Effect effect(const Option& option, const std::vector<Holding>& holdings) const;

  const StepGraph& graph_;
  const PlannerOptions& o_;
  double step_seconds_;
  std::vector<Block> blocks_;
  std::vector<Option> options_;
  std::vector<bool> in_blocks_;  // tensors that belong to a block or a link
  bool quantizes_;
};

}  // namespace lacuna
