// The choice of regions to recompute, from the graph of a step that recomputes nothing.
#pragma once

#include "autograd/plan/step_graph.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {

/// One way to hold a tensor. The cost is in seconds, with the seconds that its noise is worth.
struct TensorWay {
  MemoryPlan::Choice choice{};
  std::int64_t bytes = 0;   // from birth
  std::int64_t loaded = 0;  // from the first use, in addition: back from the store; negative: no more rematerialized
  double cost = 0;
};

/// Blocks, their parts, and which tensors lie in each of them.
class RegionChoice {
 public:
  struct Result {
    std::vector<std::string> regions{};
    std::int64_t bytes = 0;  // predicted
    double seconds = 0;      // of a step, with what its noise is worth
  };
  /// The ways of a tensor; `leaves`: those of the output of a recomputed region, which no op can rematerialize.
  using Ways = std::function<std::vector<TensorWay>(const GraphTensor&, bool leaves)>;

  RegionChoice(const StepGraph& graph, const Ways& ways);

  /// The regions of the cheapest step that is predicted to take at most `budget` of `counted` bytes, or of the smallest
  /// one if none is; then those of other steps that were found, the best first. `of_saved`: only bytes that are held
  /// when backward begins count.
  ///
  /// A byte has a price. Each tensor takes its cheapest way, and each block is recomputed, alone, in parts or together
  /// with its neighbours, if that costs less than the bytes that it frees. The lowest price that fits is found by
  /// bisection. A byte is paid for at the moments at which the step has its peak; since these change with the choice,
  /// it is made several times. At last, regions are dropped and exchanged as long as that makes the step cheaper.
  std::vector<Result> choose(std::int64_t budget, const std::function<std::int64_t(const StepBytes&)>& counted,
                             bool of_saved) const;

  /// The regions as text: `recomputed: 7 of 12 blocks`, with the numbers of runs and of parts.
  std::string describe(const std::vector<std::string>& regions) const;

 private:
  struct Part {
    const GraphRegion* region;
    double seconds = 0;            // its forward pass, up to the last op whose result backward reads
    std::size_t from = 0, to = 0;  // the events of its forward pass that run again: up to before `to`
    std::size_t begin = 0;         // the first event of its backward pass
  };
  struct Block : Part {
    std::vector<Part> parts{};
    double all_seconds = 0;              // its whole forward pass
    std::vector<std::size_t> tensors{};  // those that it makes,
    std::vector<std::size_t> inputs{};   // and those that it takes which are not held
  };
  struct Place {
    std::ptrdiff_t block = -1, part = -1;  // -1: none
    bool operator==(const Place&) const = default;
  };
  struct Tensor {
    Place made{};
    std::vector<Place> users{};                // in forward, elsewhere than where it is made
    bool is_there = false;                     // held whole, or rematerialized
    std::ptrdiff_t first = -1, last = -1;      // blocks that read it
    bool read_in_part = false;                 // by its part alone
    std::vector<TensorWay> ways{}, leaving{};  // the latter as the input or output of a region
  };
  /// A recomputed region: consecutive blocks, or a part of one.
  struct Region {
    std::ptrdiff_t first, last, part;  // part -1: whole blocks
    double seconds;
    std::size_t from, to, begin;
  };

  struct Weighed {
    StepBytes bytes{};
    double cost = 0;         // beyond that of the step's ops
    std::size_t moment = 0;  // of the peak
  };
  /// The moments of backward: 0 is after all blocks, b + 1 in block b, and the last one when backward begins. The price
  /// of a byte that is held from when backward begins until a moment, in seconds, by moment.
  using Prices = std::vector<double>;

  std::ptrdiff_t count() const { return std::ssize(blocks_); }
  std::size_t moments() const { return blocks_.size() + 2; }
  Part measured(const GraphRegion& region) const;
  static bool lies_within(const Place& place, const Region& region);
  /// Whether it is an input of the region that would not be held without it.
  static bool is_held_for(const Tensor& tensor, const Region& region);
  static bool is_inner(const Tensor& tensor, const Region& region);
  /// The cheapest way of a tensor. Inside of a region it is that at the price of all moments, since only one region at
  /// a time has its tensors in memory.
  const TensorWay& cheapest(std::size_t tensor, bool leaves, const Prices& prices, bool inside) const;
  /// The cost of a tensor with its bytes. `inside`: the region in which it lives alone, or null.
  double value(std::size_t tensor, bool leaves, const Prices& prices, const Region* inside = nullptr) const;
  bool is_sequence(std::ptrdiff_t first, std::ptrdiff_t last) const;
  Region run(std::ptrdiff_t first, std::ptrdiff_t last) const;
  Region part(std::ptrdiff_t block, std::ptrdiff_t index) const;
  double cost_of(const Region& region, const Prices& prices) const;
  std::vector<Region> cheapest_regions(const Prices& prices, std::ptrdiff_t longest) const;
  Weighed weigh(const std::vector<Region>& regions, const Prices& prices) const;
  std::string path(const Region& region) const;

  const StepGraph& graph_;
  std::vector<Block> blocks_{};
  std::vector<Tensor> tensors_{};
  std::vector<std::size_t> moments_{};  // [events]
  std::vector<std::int64_t> local_{};   // [events] of forward: peak beyond what is saved, and was there before the step
};

}  // namespace lacuna
