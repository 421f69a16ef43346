// Device graphs: work that is captured once and replayed without the host's launch overhead (CUDA graphs).
#pragma once

#include "core/backend.h"

#include <functional>
#include <memory>

namespace lacuna {

/// A captured graph of the work that `queue` queues on a cuda device, without running it. A replay reads and writes the
/// memory that the tensors had during the capture: tensors that outlive `queue` keep it, and memory released in `queue`
/// is reserved for the graph while it lives (Allocator::begin_pool). Values that the host passes (numbers in kernel
/// arguments, bytes copied to the device) are frozen at the capture, so values that change between replays must be in
/// tensors. Throws Error if the host waits for the device in `queue`. A device has one graph at a time.
class DeviceGraph {
 public:
  /// `most`: bytes of all tensors of the device with the graph's memory, at which it is an Error; 0: no limit.
  DeviceGraph(Device device, const std::function<void()>& queue, std::int64_t most = 0);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  void replay() const;
  /// Bytes of memory reserved for the graph beside its tensors; the ledger counts them.
  std::int64_t bytes() const { return bytes_; }

 private:
  Device device_;
  std::unique_ptr<StreamGraph> graph_;
  std::int64_t bytes_ = 0;
};

}  // namespace lacuna
