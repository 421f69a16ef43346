// Ranks of the stand-in. Its memory is host memory, which the host's communicator sends directly.
#include "core/backend.h"
#include "core/communicator.h"
#include "core/device_ranks.h"
#include "core/stand_in/queue.h"

#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna::cuda {
namespace {

class StandInRanks final : public Communicator {
 public:
  StandInRanks(Device device, std::unique_ptr<Communicator> host) : device_(device), host_(std::move(host)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  Device device() const override { return device_; }
  Communicator& host() override { return *host_; }
  void broadcast(std::span<std::byte> bytes, int root) override {
    queue([=](Communicator& host) { host.broadcast(bytes, root); });
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    queue([=](Communicator& host) { host.all_gather(mine, all); });
  }
  using Communicator::all_to_all;
  void all_to_all(std::span<const std::byte> send, std::span<const Section> to, std::span<std::byte> receive,
                  std::span<const Section> from) override {
    queue([=, to = std::vector(to.begin(), to.end()), from = std::vector(from.begin(), from.end())](
              Communicator& host) { host.all_to_all(send, to, receive, from); });
  }
  void barrier() override {
    backend(device_).synchronize(stream_of(device_));
    host_->barrier();
  }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<StandInRanks>(device_, host_->duplicate());
  }
  void describe(std::string_view operation) override { host_->describe(operation); }
  void abort(int code) override { host_->abort(code); }

 private:
  /// Communicates once the queued work on the data to send is done; what is captured does at each replay.
  void queue(std::function<void(Communicator&)> operation) const {
    const Stream stream = stream_of(device_);
    if (stand_in::captures(stream) != nullptr)
      return stand_in::enqueue(stream, [host = host_.get(), operation = std::move(operation)] { operation(*host); });
    backend(device_).synchronize(stream);
    operation(*host_);
  }

  Device device_;
  std::unique_ptr<Communicator> host_;
};

const RegisterKernel open{open_device_ranks, DeviceKind::cuda,
                          [](Device device, Communicator& host, std::unique_ptr<Communicator>& made) {
                            made = std::make_unique<StandInRanks>(device, host.duplicate());
                          }};

}  // namespace
}  // namespace lacuna::cuda
