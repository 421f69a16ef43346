// The planner's model of a training step: recorded once on `meta`, then evaluated under any plan.
#pragma once

#include "autograd/block_range.h"
#include "autograd/observer.h"
#include "autograd/plan/cost_table.h"
#include "autograd/plan/memory_plan.h"
#include "autograd/policies/planned.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {

/// Bytes of a step: those saved when backward begins, and the peak of all memory.
struct StepBytes {
  std::int64_t saved = 0, peak = 0;
};
/// Runs one training step of a built model on `meta`.
using MetaStep = std::function<StepBytes(MemoryPolicy&, Observer*)>;

/// A saved tensor. Times are indices of events (StepGraph::events).
struct GraphTensor {
  std::string key;                     // SavedTensorInfo::key()
  std::string path{};                  // path of the module that made it
  BitChoice size{};                    // `exact_bytes`: its unquantized bytes
  std::vector<std::string> readers{};  // paths of the ops whose backward reads it
  std::vector<std::string> users{};    // paths of the ops that take it in forward
  bool worth_quantizing = false;
  bool can_quantize = false;  // worth quantizing, and held
  bool is_input = false;      // an input of the program, such as images
  bool is_statistic = false;
  bool in_region = false;  // saved during the recompute of a region, not in forward
  bool can_offload = false;
  bool can_rematerialize = false;  // freed, since a cheap pass over other saved tensors recomputes it
  std::int64_t held_bytes = 0;     // in the recorded step
  std::int64_t again_bytes = 0;    // if rematerialized: held from the first to the last use
  std::int64_t sign_bytes = 0;     // bytes of the sign mask kept in addition to its bits
  std::size_t made = 0;            // the forward event of the op that made it
  std::size_t birth = 0;           // held from this event
  std::size_t last_use = 0;        // up to this event
  std::size_t first_use = 0;       // in backward; if offloaded, it is back in memory from here on

  /// Bytes while a variable names it.
  std::int64_t whole_bytes() const { return readers.empty() ? 0 : size.exact_bytes; }
  /// Bytes under a choice, from birth to last use; 0 if offloaded.
  std::int64_t bytes(const MemoryPlan::Choice& choice) const;
};

/// A module that can be recomputed, or a block of a sequence.
struct GraphRegion {
  std::string path;
  std::string sequence{};  // the sequence of a block
  std::int64_t index = 0;  // position in the sequence
};

/// Bytes of a tensor under a plan, up to its last use.
struct HeldBytes {
  std::int64_t bytes = 0;  // from its birth
  std::int64_t later = 0;  // from event `from`, in addition: loaded from the store, or recomputed
  std::size_t from = 0;
};

class StepGraph {
 public:
  struct Event {
    bool backward = false;
    std::string path{};
    double seconds = 0;
    std::int64_t peak = 0;  // the peak of all memory since the previous event
    std::int64_t live = 0;  // all memory at the event
  };

  /// Records one step in which all tensors that can be quantized have `bits` bits; exact_bits records a step under
  /// `exact`.
  static StepGraph record(const MetaStep& step, const std::vector<std::string>& regions, int bits,
                          std::int64_t group_size, const CostTable& costs);

  std::vector<GraphTensor> tensors;  // in the order of forward
  std::vector<GraphRegion> regions;  // outer regions before inner ones
  std::vector<Event> events;
  StepBytes recorded_bytes;
  std::int64_t group_size = 256;
  std::size_t backward_begin = 0;

  /// Bytes of the recorded step if its tensors were `held` [tensors]. Saved bytes are exact; the peak is a prediction,
  /// which a step on `meta` confirms.
  StepBytes bytes(std::span<const HeldBytes> held) const { return {saved(held), std::ranges::max(totals(held))}; }
  std::int64_t saved(std::span<const HeldBytes> held) const;
  /// The memory peak since the previous event, for each event.
  std::vector<std::int64_t> totals(std::span<const HeldBytes> held) const;
  /// Time of all ops, recomputed ones included, without quantization and rematerialization.
  double seconds() const;
};

}  // namespace lacuna
