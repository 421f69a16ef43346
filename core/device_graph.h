// Device graphs: work that is captured once and replayed without the host's launch overhead (CUDA graphs).
#pragma once

#include "core/backend.h"

#include <functional>
#include <memory>

namespace lacuna {

/// The memory that graphs of a device have beside their tensors. Graphs that share it run one after the other, and each
/// writes before it reads. A device has one such memory at a time.
class GraphMemory {
 public:
  explicit GraphMemory(Device device);
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;
  /// As the ledger counts it.
  std::int64_t bytes() const { return bytes_; }

 private:
  friend class DeviceGraph;
  void count();

  Device device_;
  std::int64_t bytes_ = 0;
};

/// A captured graph of the work that `queue` queues on a cuda device, without running it. A replay reads and writes the
/// memory that the tensors had during the capture: tensors that outlive `queue` keep it, and memory released in `queue`
/// is reserved for the graph while it lives (Allocator::begin_pool). Values that the host passes (numbers in kernel
/// arguments, bytes copied to the device) are frozen at the capture, so values that change between replays must be in
/// tensors. Throws Error if the host waits for the device in `queue`.
class DeviceGraph {
 public:
  /// `most`: bytes of all tensors of the device with the graph's memory, at which it is an Error; 0: no limit.
  /// `memory`: shared with other graphs; null: one of its own.
  DeviceGraph(Device device, const std::function<void()>& queue, std::int64_t most = 0,
              std::shared_ptr<GraphMemory> memory = nullptr);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  void replay() const;
  /// Bytes of memory reserved for graphs beside their tensors.
  std::int64_t bytes() const { return memory_->bytes(); }

 private:
  Device device_;
  std::shared_ptr<GraphMemory> memory_;
  std::unique_ptr<StreamGraph> graph_;  // destroyed first
};

}  // namespace lacuna
