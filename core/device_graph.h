// Work on a device that is captured once and then done again and again, without the host's part in it.
#pragma once

#include "core/backend.h"

#include <functional>
#include <memory>

namespace lacuna {

/// A captured graph of the work that `queue` queues on a cuda device, without running it. It reads and writes the
/// memory that its tensors had then: those that outlive `queue` keep theirs, and what it releases stays apart from all
/// other tensors while this lives (Allocator::begin_pool). Values that the host gives it (numbers in a kernel's
/// arguments, bytes copied to the device) stay those of the capture: what changes between replays lies in tensors.
/// Throws Error if the host waits for the device in `queue`. A device has one graph at a time.
class DeviceGraph {
 public:
  DeviceGraph(Device device, const std::function<void()>& queue);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  void replay() const;
  /// Memory that it holds beside its tensors; the ledger counts it.
  std::int64_t bytes() const { return bytes_; }

 private:
  Device device_;
  std::unique_ptr<StreamGraph> graph_;
  std::int64_t bytes_ = 0;
};

}  // namespace lacuna
