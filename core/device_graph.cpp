#include "core/device_graph.h"

#include "core/allocator.h"
#include "core/ledger.h"

namespace lacuna {
namespace {

Owner owner() { return {Purpose::transient, Label("captured step"), {}}; }

}  // namespace

GraphMemory::GraphMemory(Device device) : device_(device) {
  expect(allocator(device).pool_bytes() == 0, "a device has one memory of captured graphs at a time");
}

GraphMemory::~GraphMemory() {
  allocator(device_).free_pool();
  ledger(device_).remove(owner(), bytes_);
}

void GraphMemory::count() {
  ledger(device_).remove(owner(), bytes_);
  bytes_ = allocator(device_).pool_bytes();
  ledger(device_).add(owner(), bytes_);
}

DeviceGraph::DeviceGraph(Device device, const std::function<void()>& queue, std::int64_t most,
                         std::shared_ptr<GraphMemory> memory)
    : device_(device), memory_(memory ? std::move(memory) : std::make_shared<GraphMemory>(device)) {
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
    allocator(device).end_pool();
    throw;
  }
  allocator(device).end_pool();
  const std::int64_t added = allocator(device).pool_bytes() - memory_->bytes();
  if (const std::int64_t all = ledger(device).total() + added; most > 0 && all > most)
    fail("with a captured step tensors take {}: expected no more than memory.budget leaves, {}", format_bytes(all),
         format_bytes(most));
  memory_->count();
}

DeviceGraph::~DeviceGraph() {
  try {
    synchronize(device_);  // a replay may be running
  } catch (const Error&) {  // of the device: the next operation tells it again
  }
}

void DeviceGraph::replay() const { graph_->replay(stream_of(device_)); }

}  // namespace lacuna
