#include "ops/cuda/libraries/nccl.h"

#include "core/backend.h"
#include "core/communicator.h"
#include "core/cuda/library.h"
#include "core/device_ranks.h"
#include "core/error.h"
#include "ops/cuda/libraries/plan_file.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna::cuda {
namespace {

struct Nccl {
  SharedLibrary library{"NCCL", {"libnccl.so.2"}, "libnccl2 from NVIDIA or nvidia-nccl-cu13 from PyPI"};
#define LACUNA_NCCL(name) decltype(&::name) name = library.function<decltype(&::name)>(#name)
  LACUNA_NCCL(ncclGetVersion);
  LACUNA_NCCL(ncclGetUniqueId);
  LACUNA_NCCL(ncclCommInitRank);
  LACUNA_NCCL(ncclCommAbort);
  LACUNA_NCCL(ncclCommGetAsyncError);
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

/// This process among the GPUs of all ranks, until it ends. One communicator serves all streams, since all ranks queue
/// operations in the same order; its buffers are hundreds of MiB. It is never destroyed: that is collective, and a rank
/// that fails would wait for the others before it tells why.
class Joined {
 public:
  static const Joined& of(Device device, Communicator& host) {
    static std::mutex mutex;
    static std::map<int, std::unique_ptr<Joined>>& all = *new std::map<int, std::unique_ptr<Joined>>;
    Joined* made = nullptr;
    {
      const std::lock_guard lock(mutex);
      std::unique_ptr<Joined>& own = all[device.index];
      if (!own) own = std::make_unique<Joined>();
      made = own.get();
    }
    if (made->ranks_ == nullptr) made->join(device, host);
    return *made;
  }
  ncclComm_t ranks() const { return ranks_; }
  void all_to_all(Stream stream, const std::byte* send, std::span<const Section> to, std::byte* receive,
                  std::span<const Section> from) const {
    check(nccl().ncclGroupStart(), "all-to-all");
    ncclResult_t queued = ncclSuccess;
    for (std::size_t peer = 0; peer < to.size() && queued == ncclSuccess; ++peer) {
      const int number = static_cast<int>(peer);
      if (to[peer].bytes > 0)
        queued = nccl().ncclSend(send + to[peer].begin, to[peer].bytes, ncclUint8, number, ranks_, stream);
      if (from[peer].bytes > 0 && queued == ncclSuccess)
        queued = nccl().ncclRecv(receive + from[peer].begin, from[peer].bytes, ncclUint8, number, ranks_, stream);
    }
    const ncclResult_t ended = nccl().ncclGroupEnd();  // also of a group that failed
    check(queued != ncclSuccess ? queued : ended, "all-to-all");
  }

 private:
  void join(Device device, Communicator& host) {
    ncclUniqueId id{};
    if (host.rank() == 0) check(nccl().ncclGetUniqueId(&id), "an id for the ranks");
    host.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
    const Stream stream = stream_of(device);  // makes the device the current one
    host.describe("joining the GPUs of all ranks");
    host.barrier();  // NCCL waits for a rank that does not come, and asks nobody: the host's wait tells who is missing
    check(nccl().ncclCommInitRank(&ranks_, host.size(), id, host.rank()), "joining the ranks");
    agree_on_plans(host);
    watch_waits([this, rank = host.rank(), timeout = host.timeout()](double seconds) { ask(rank, timeout, seconds); });
    take_buffers(device, stream, host.size());
  }
  /// NCCL allocates its buffers at the first operation of each kind: here, before tensors are given the rest.
  void take_buffers(Device device, Stream stream, int size) const {
    constexpr std::size_t bytes = 256;
    void* memory = nullptr;
    if (cudaMalloc(&memory, 2 * bytes * static_cast<std::size_t>(size)) != cudaSuccess)
      fail("NCCL: {} has no memory left for its buffers", name_of(device));
    const std::unique_ptr<void, void (*)(void*)> owned(memory, [](void* one) { cudaFree(one); });
    auto* const send = static_cast<std::byte*>(memory);
    std::byte* const receive = send + bytes * static_cast<std::size_t>(size);
    std::vector<Section> rows;
    for (int peer = 0; peer < size; ++peer) rows.push_back({static_cast<std::size_t>(peer) * bytes, bytes});
    all_to_all(stream, send, rows, receive, rows);
    check(nccl().ncclAllGather(send, receive, bytes, ncclUint8, ranks_, stream), "all-gather");
    check(nccl().ncclBroadcast(send, send, bytes, ncclUint8, 0, ranks_, stream), "broadcast");
    backend(device).synchronize(stream);
  }
  /// While the host waits for the device. Kernels that wait for other ranks end with the communicator.
  void ask(int rank, double timeout, double seconds) {
    if (ranks_ == nullptr) return;
    ncclResult_t state = ncclSuccess;
    ncclResult_t asked = nccl().ncclCommGetAsyncError(ranks_, &state);
    if (asked == ncclSuccess) asked = state;
    if (asked != ncclSuccess && asked != ncclInProgress) {
      const std::string why = nccl().ncclGetLastError(nullptr);
      nccl().ncclCommAbort(std::exchange(ranks_, nullptr));
      fail("NCCL: a GPU of another rank, or the way to it, failed: {}: {}", nccl().ncclGetErrorString(asked), why);
    }
    if (seconds <= timeout) return;
    nccl().ncclCommAbort(std::exchange(ranks_, nullptr));
    fail("the GPU of rank {} has waited for those of other ranks for {:.0f} s (--rank-timeout)", rank, seconds);
  }

  ncclComm_t ranks_ = nullptr;
};

/// Operations are queued on the stream on which this thread's kernels run. What is small, and the end of all ranks when
/// one dies, goes over the host.
class NcclRanks final : public Communicator {
 public:
  NcclRanks(Device device, std::unique_ptr<Communicator> host)
      : device_(device), host_(std::move(host)), joined_(Joined::of(device, *host_)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  Device device() const override { return device_; }
  Communicator& host() override { return *host_; }
  void describe(std::string_view operation) override { host_->describe(operation); }

  void broadcast(std::span<std::byte> bytes, int root) override {
    check(nccl().ncclBroadcast(bytes.data(), bytes.data(), bytes.size(), ncclUint8, root, joined_.ranks(),
                               stream_of(device_)),
          "broadcast");
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    check(nccl().ncclAllGather(mine.data(), all.data(), mine.size(), ncclUint8, joined_.ranks(), stream_of(device_)),
          "all-gather");
  }
  using Communicator::all_to_all;
  void all_to_all(std::span<const std::byte> send, std::span<const Section> to, std::span<std::byte> receive,
                  std::span<const Section> from) override {
    joined_.all_to_all(stream_of(device_), send.data(), to, receive.data(), from);
  }
  void barrier() override {
    backend(device_).synchronize(stream_of(device_));
    host_->barrier();
  }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<NcclRanks>(device_, host_->duplicate());
  }
  double timeout() const override { return host_->timeout(); }
  void abort(int code) override { host_->abort(code); }

 private:
  Device device_;
  std::unique_ptr<Communicator> host_;
  const Joined& joined_;
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
