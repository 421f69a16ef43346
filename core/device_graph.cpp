#include "core/device_graph.h"

#include "core/allocator.h"
#include "core/ledger.h"

namespace lacuna {
namespace {

Owner owner() { return {Purpose::transient, Label("captured step"), {}}; }

}  // namespace

DeviceGraph::DeviceGraph(Device device, const std::function<void()>& queue, std::int64_t most) : device_(device) {
  Backend& own = backend(device);
  const Stream stream = own.stream(device.index);
  allocator(device).begin_pool();
  try {
    own.begin_capture(stream);
    try {
      queue();
    } catch (...) {
      try {
        own.end_capture(stream);
      } catch (const Error&) {  // the first error is more informative
      }
      throw;
    }
    graph_ = own.end_capture(stream);
  } catch (...) {
    allocator(device).free_pool();
    throw;
  }
  allocator(device).end_pool();
  bytes_ = allocator(device).pool_bytes();
  if (const std::int64_t all = ledger(device).total() + bytes_; most > 0 && all > most) {
    graph_.reset();
    allocator(device).free_pool();
    fail("with a captured step tensors take {}: expected no more than memory.budget leaves, {}", format_bytes(all),
         format_bytes(most));
  }
  ledger(device).add(owner(), bytes_);
}

DeviceGraph::~DeviceGraph() {
  try {
    synchronize(device_);  // a replay may be running
  } catch (const Error&) {  // of the device: the next operation tells it again
  }
  graph_.reset();
  allocator(device_).free_pool();
  ledger(device_).remove(owner(), bytes_);
}

void DeviceGraph::replay() const { graph_->replay(stream_of(device_)); }

}  // namespace lacuna
