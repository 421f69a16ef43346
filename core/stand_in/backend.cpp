// The backend of the stand-in: two devices that use host memory.
#include "core/backend.h"

#include "core/error.h"
#include "core/stand_in/queue.h"
#include "core/system_memory.h"

#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lacuna::cuda {
namespace {

constexpr int devices = 2;
constexpr std::size_t piece = std::size_t{2} << 20;

class Work final : public StreamGraph {
 public:
  explicit Work(std::vector<std::function<void()>> work) : work_(std::move(work)) {}
  void replay(Stream stream) override {
    for (const std::function<void()>& one : work_) stand_in::enqueue(stream, one);
  }

 private:
  std::vector<std::function<void()>> work_;
};

class Mark final : public StreamMark {
 public:
  explicit Mark(Stream of) : stream(of), captures(stand_in::captures(of)) {}
  Stream stream, captures;
};

class StandIn final : public Backend {
 public:
  int device_count() const override { return devices; }
  std::string problem() const override { return {}; }
  std::vector<std::string> left_out() const override { return {}; }
  std::string name(int) const override { return "stand-in"; }
  std::string identity(int device) const override { return "stand-in " + std::to_string(device); }

  Stream stream(int device) override { return &streams_[static_cast<std::size_t>(device)]; }
  Stream side_stream(int device) override { return &side_streams_[static_cast<std::size_t>(device)]; }
  Stream input_stream(int device) override { return &input_streams_[static_cast<std::size_t>(device)]; }
  void synchronize(Stream stream) override { stand_in::synchronize(stream); }
  std::unique_ptr<StreamMark> mark(Stream stream) override { return std::make_unique<Mark>(stream); }
  void wait_for(Stream stream, const StreamMark& mark) override {
    const Mark& behind = static_cast<const Mark&>(mark);
    const Stream capturing = stand_in::captures(stream);
    if (behind.captures == nullptr) {
      if (capturing != nullptr) fail("captured work waits for work that is not captured");
      return stand_in::synchronize(behind.stream);
    }
    if (capturing == nullptr) stream->joins = behind.captures;
    behind.stream->is_joined = true;  // later work on it clears that
  }
  void copy(Stream stream, void* to, const void* from, std::size_t bytes) override {
    stand_in::enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  }
  void copy_in(Stream stream, void* to, const void* from, std::size_t bytes) override {
    const auto* const begin = static_cast<const std::byte*>(from);
    stand_in::enqueue(
        stream, [to, staged = std::vector(begin, begin + bytes)] { std::memcpy(to, staged.data(), staged.size()); });
  }
  void copy_out(Stream stream, void* to, const void* from, std::size_t bytes) override {
    stand_in::synchronize(stream);
    std::memcpy(to, from, bytes);
  }
  void copy_out_later(Stream stream, void* to, const void* from, std::size_t bytes) override {
    if (stand_in::captures(stream) != nullptr) throw_host_memory_captured();
    copy(stream, to, from, bytes);
  }
  void copy_in_later(Stream stream, void* to, const void* from, std::size_t bytes) override {
    if (stand_in::captures(stream) != nullptr) throw_host_memory_captured();
    copy(stream, to, from, bytes);
  }
  bool pin(void*, std::size_t) override { return true; }
  void unpin(void*) noexcept override {}
  void set_to_zero(Stream stream, void* to, std::size_t bytes) override {
    stand_in::enqueue(stream, [=] { std::memset(to, 0, bytes); });
  }

  void begin_capture(Stream stream) override {
    const std::lock_guard lock(stream->mutex);
    expect(!stream->captured, "the work of a stream is captured already");
    stream->captured.emplace();
  }
  std::unique_ptr<StreamGraph> end_capture(Stream stream) override {
    bool all_joined = true;
    for (CUstream_st& side : side_streams_)
      if (side.joins == stream) {
        all_joined = all_joined && std::exchange(side.is_joined, true);
        side.joins = nullptr;
      }
    const std::lock_guard lock(stream->mutex);
    auto work = std::exchange(stream->captured, {});
    expect(work.has_value(), "the work of a stream was not captured");
    if (!all_joined) fail("a capture ends before the stream waits for the work of another that it has");
    return std::make_unique<Work>(std::move(*work));
  }

  Card card(int device) const override {
    const char* const capability = std::getenv("LACUNA_STAND_IN_CAPABILITY");
    return {.memory = capacity(device) + card_beside_tensors,
            .compute_capability = capability == nullptr ? Card().compute_capability : std::atoi(capability),
            .device = device};
  }
  std::int64_t capacity(int) const override {
    const char* const bytes = std::getenv("LACUNA_STAND_IN_BYTES");
    return bytes == nullptr ? std::int64_t{8} << 30
                            : std::atoll(bytes) / static_cast<int>(piece) * static_cast<int>(piece);
  }
  std::byte* reserve(int device, std::size_t bytes) override {
    void* const range = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) fail("the stand-in cannot reserve {} bytes of addresses", bytes);
    return bases_[static_cast<std::size_t>(device)] = static_cast<std::byte*>(range);
  }
  /// Called for each allocated block. Fills it with NaN, so that a kernel that relies on earlier contents fails its
  /// test.
  bool commit(int device, std::size_t begin, std::size_t end) override {
    const std::size_t first = begin / piece * piece, last = (end + piece - 1) / piece * piece;
    std::byte* const base = bases_[static_cast<std::size_t>(device)];
    if (mprotect(base + first, last - first, PROT_READ | PROT_WRITE) != 0) return false;
    stand_in::enqueue(stream(device), [=] { std::memset(base + begin, 0xff, end - begin); });
    return true;
  }
  /// Makes any later access a segmentation fault.
  void decommit(int device, std::size_t begin, std::size_t end) noexcept override {
    const std::size_t first = (begin + piece - 1) / piece * piece, last = end / piece * piece;
    if (first >= last) return;
    std::byte* const memory = bases_[static_cast<std::size_t>(device)] + first;
    try {
      stand_in::synchronize(stream(device));
      stand_in::synchronize(side_stream(device));
      stand_in::synchronize(input_stream(device));
    } catch (...) {
      return;
    }
    madvise(memory, last - first, MADV_DONTNEED);
    mprotect(memory, last - first, PROT_NONE);
  }

 private:
  std::array<CUstream_st, devices> streams_{}, side_streams_{}, input_streams_{};
  std::array<std::byte*, devices> bases_{};
};

// Never destroyed, since tensors in static objects may be destroyed later.
const RegisterBackend registered{*new StandIn};

}  // namespace

}  // namespace lacuna::cuda
