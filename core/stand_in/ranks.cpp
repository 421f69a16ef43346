// Ranks of the stand-in. Its memory is host memory, which the host's communicator sends directly.
#include "core/backend.h"
#include "core/communicator.h"
#include "core/device_ranks.h"

#include <memory>
#include <string_view>

namespace lacuna::cuda {
namespace {

class StandInRanks final : public Communicator {
 public:
  StandInRanks(Device device, std::unique_ptr<Communicator> host) : device_(device), host_(std::move(host)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  Device device() const override { return device_; }
  Communicator& host() override { return *host_; }
  void broadcast(std::span<std::byte> bytes, int root) override { after_work().broadcast(bytes, root); }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    after_work().all_gather(mine, all);
  }
  using Communicator::all_to_all;
  void all_to_all(std::span<const std::byte> send, std::span<const Section> to, std::span<std::byte> receive,
                  std::span<const Section> from) override {
    after_work().all_to_all(send, to, receive, from);
  }
  void barrier() override { after_work().barrier(); }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<StandInRanks>(device_, host_->duplicate());
  }
  void describe(std::string_view operation) override { host_->describe(operation); }
  void abort(int code) override { host_->abort(code); }

 private:
  /// The host's communicator, once the queued work on the data to send is done.
  Communicator& after_work() const {
    backend(device_).synchronize(stream_of(device_));
    return *host_;
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
