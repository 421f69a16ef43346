#include "ops/cuda/libraries/nccl.h"

#include "core/backend.h"
#include "core/communicator.h"
#include "core/cuda/library.h"
#include "core/device_ranks.h"
#include "core/error.h"

#include <fmt/format.h>
#include <nccl.h>

#include <memory>
#include <string>
#include <string_view>

namespace lacuna::cuda {
namespace {

struct Nccl {
  SharedLibrary library{"NCCL", {"libnccl.so.2"}, "libnccl2 from NVIDIA or nvidia-nccl-cu13 from PyPI"};
#define LACUNA_NCCL(name) decltype(&::name) name = library.function<decltype(&::name)>(#name)
  LACUNA_NCCL(ncclGetVersion);
  LACUNA_NCCL(ncclGetUniqueId);
  LACUNA_NCCL(ncclCommInitRank);
  LACUNA_NCCL(ncclCommDestroy);
  LACUNA_NCCL(ncclGetErrorString);
  LACUNA_NCCL(ncclGetLastError);
  LACUNA_NCCL(ncclBroadcast);
  LACUNA_NCCL(ncclAllGather);
  LACUNA_NCCL(ncclSend);
  LACUNA_NCCL(ncclRecv);
  LACUNA_NCCL(ncclGroupStart);
  LACUNA_NCCL(ncclGroupEnd);
#undef LACUNA_NCCL
};
const Nccl& nccl() {
  static const Nccl& functions = *new Nccl;  // never destroyed: communicators may live as long as the process
  return functions;
}

void check(ncclResult_t result, std::string_view what) {
  if (result != ncclSuccess)
    fail("NCCL: {}: {}: {}", what, nccl().ncclGetErrorString(result), nccl().ncclGetLastError(nullptr));
}

/// Operations are queued on the stream on which this thread's kernels run. What is small, and the end of all ranks when
/// one dies, goes over the host.
class NcclRanks final : public Communicator {
 public:
  NcclRanks(Device device, std::unique_ptr<Communicator> host) : device_(device), host_(std::move(host)) {
    ncclUniqueId id{};
    if (rank() == 0) check(nccl().ncclGetUniqueId(&id), "an id for the ranks");
    host_->broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
    stream_of(device_);  // makes the device the current one
    check(nccl().ncclCommInitRank(&ranks_, size(), id, rank()), "joining the ranks");
  }
  ~NcclRanks() override { nccl().ncclCommDestroy(ranks_); }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  Device device() const override { return device_; }
  Communicator& host() override { return *host_; }
  void describe(std::string_view operation) override { host_->describe(operation); }

  void broadcast(std::span<std::byte> bytes, int root) override {
    check(nccl().ncclBroadcast(bytes.data(), bytes.data(), bytes.size(), ncclUint8, root, ranks_, stream_of(device_)),
          "broadcast");
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    check(nccl().ncclAllGather(mine.data(), all.data(), mine.size(), ncclUint8, ranks_, stream_of(device_)),
          "all-gather");
  }
  using Communicator::all_to_all;
  void all_to_all(std::span<const std::byte> send, std::span<const Section> to, std::span<std::byte> receive,
                  std::span<const Section> from) override {
    const Stream stream = stream_of(device_);
    check(nccl().ncclGroupStart(), "all-to-all");
    for (int peer = 0; peer < size(); ++peer) {
      const Section &sent = to[static_cast<std::size_t>(peer)], &received = from[static_cast<std::size_t>(peer)];
      if (sent.bytes > 0)
        check(nccl().ncclSend(send.data() + sent.begin, sent.bytes, ncclUint8, peer, ranks_, stream), "all-to-all");
      if (received.bytes > 0)
        check(nccl().ncclRecv(receive.data() + received.begin, received.bytes, ncclUint8, peer, ranks_, stream),
              "all-to-all");
    }
    check(nccl().ncclGroupEnd(), "all-to-all");
  }
  void barrier() override {
    backend(device_).synchronize(stream_of(device_));
    host_->barrier();
  }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<NcclRanks>(device_, host_->duplicate());
  }
  void abort(int code) override { host_->abort(code); }

 private:
  Device device_;
  std::unique_ptr<Communicator> host_;
  ncclComm_t ranks_ = nullptr;
};

const RegisterKernel open{open_device_ranks, DeviceKind::cuda,
                          [](Device device, Communicator& host, std::unique_ptr<Communicator>& made) {
                            made = std::make_unique<NcclRanks>(device, host.duplicate());
                          }};

}  // namespace

CudaLibrary nccl_state() {
  try {
    int version = 0;
    check(nccl().ncclGetVersion(&version), "version");
    return {"NCCL", fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100), ""};
  } catch (const Error& error) {
    return {"NCCL", "", error.what()};
  }
}

}  // namespace lacuna::cuda
