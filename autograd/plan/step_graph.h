// A training step as a planner sees it: recorded from one step on `meta`, then evaluated under any plan.
#pragma once

#include "autograd/block_range.h"
#include "autograd/observer.h"
#include "autograd/plan/cost_table.h"
#include "autograd/plan/memory_plan.h"
#include "autograd/policies/planned.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {

/// Bytes of a step: saved for backward when that begins, and of all memory at its highest.
struct StepBytes {
  std::int64_t saved = 0, peak = 0;
};
/// Runs one training step of a built model on `meta`.
using MetaStep = std::function<StepBytes(MemoryPolicy&, Observer*)>;

/// A saved tensor. Times are numbers of events (StepGraph::events).
struct GraphTensor {
  std::string key;                     // SavedTensorInfo::key()
  std::string path{};                  // of the module that made it
  BitChoice size{};                    // its own bytes as `exact_bytes`, and what its bits take
  std::vector<std::string> readers{};  // paths of the ops that read it
  bool can_quantize = false;
  bool is_input = false;   // of the program: images
  bool in_region = false;  // held while a region runs again, not from forward on
  bool can_offload = false;
  bool can_rematerialize = false;  // held as nothing, since a cheap pass over other saved tensors yields it
  std::int64_t held_bytes = 0;     // when the step was recorded
  std::int64_t sign_bytes = 0;     // of the sign mask that is kept beside its bits
  std::size_t birth = 0;           // it is held from here on,
  std::size_t last_use = 0;        // up to here
  std::size_t first_use = 0;       // in backward: from here on it is in memory again where it was offloaded

  /// Bytes under a choice, from birth to last use; 0 of an offloaded one.
  std::int64_t bytes(const MemoryPlan::Choice& choice) const;
};

/// A module that can be recomputed, or a block of a sequence.
struct GraphRegion {
  std::string path;
  std::string sequence{};        // of a block
  std::int64_t index = 0;        // in the sequence
  double seconds = 0;            // of its forward pass
  std::int64_t inner_bytes = 0;  // held by tensors that are made and read in it alone
};

class StepGraph {
 public:
  struct Event {
    bool backward = false;
    std::string path{};
    double seconds = 0;
    std::int64_t peak = 0;  // the highest total since the event before it
  };

  /// Records one step. `bits`: of all tensors that can be quantized; exact_bits records the step of `exact`.
  static StepGraph record(const MetaStep& step, const std::vector<std::string>& regions, int bits,
                          std::int64_t group_size, const CostTable& costs);

  std::vector<GraphTensor> tensors;   // in the order of forward
  std::vector<GraphRegion> regions;   // outer ones before those in them
  std::vector<std::string> recorded;  // regions that were recomputed in the recorded step
  std::vector<Event> events;
  StepBytes recorded_bytes;
  std::int64_t group_size = 256;
  std::size_t backward_begin = 0;

  /// Bytes of the recorded step if each tensor took `held` [tensors] from birth to last use. Saved bytes are exact; the
  /// peak is a prediction, which a step on `meta` confirms.
  /// `back` [tensors]: what comes back into memory from first to last use. Empty: nothing.
  StepBytes bytes(std::span<const std::int64_t> held, std::span<const std::int64_t> back = {}) const;
  /// The same by event: the highest total since the event before it.
  std::vector<std::int64_t> totals(std::span<const std::int64_t> held, std::span<const std::int64_t> back = {}) const;
  /// Seconds of all ops, recomputed ones included; without quantization and rematerialization.
  double seconds() const;

 private:
  void measure_regions();
};

}  // namespace lacuna
