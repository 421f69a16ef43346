// The backend over CUDA's runtime. The runtime is linked statically and looks for the driver on first use, so the
// library can be loaded on a machine without one.
#include "core/backend.h"

#include "core/allocator.h"
#include "core/cuda/staging.h"
#include "core/cuda/visible_devices.h"
#include "core/error.h"
#include "core/system_memory.h"
#include "core/tensor_cuda.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lacuna::cuda {
namespace {

/// Memory is mapped in pieces of this many bytes, a multiple of the device's granularity.
constexpr std::size_t piece = std::size_t{32} << 20;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // clears the error, which the next kernel would report otherwise
  if (error == cudaErrorMemoryAllocation) throw_out_of_memory(0, fmt::format("by CUDA ({})", what), Device::cuda);
  fail("cuda: {}: {}", what, cudaGetErrorString(error));
}

/// The driver's functions for virtual memory, looked up by name since the library does not link libcuda.
struct Driver {
  decltype(&cuMemAddressReserve) reserve = find<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(&cuMemCreate) create = find<decltype(&cuMemCreate)>("cuMemCreate");
  decltype(&cuMemMap) map = find<decltype(&cuMemMap)>("cuMemMap");
  decltype(&cuMemSetAccess) set_access = find<decltype(&cuMemSetAccess)>("cuMemSetAccess");
  decltype(&cuMemUnmap) unmap = find<decltype(&cuMemUnmap)>("cuMemUnmap");
  decltype(&cuMemRelease) release = find<decltype(&cuMemRelease)>("cuMemRelease");
  decltype(&cuDeviceGetUuid) uuid = find<decltype(&cuDeviceGetUuid)>("cuDeviceGetUuid_v2");  // of a part under MIG

  template <class F>
  static F find(const char* name) {
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW);  // the name that the runtime uses
    void* const function = library == nullptr ? nullptr : dlsym(library, name);
    if (function == nullptr) fail("cuda: the driver has no {}: it is too old", name);
    return reinterpret_cast<F>(function);
  }
};
const Driver& driver() {
  static const Driver functions;
  return functions;
}

/// A captured stream with the host bytes that it copies to the device.
class Graph final : public StreamGraph {
 public:
  ~Graph() override {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    for (void* const bytes : copied_) cudaFreeHost(bytes);
  }
  /// Copies the bytes to pinned memory that lives as long as the graph.
  const void* keep(const void* from, std::size_t bytes) {
    copied_.push_back(nullptr);
    check(cudaMallocHost(&copied_.back(), bytes), "memory of the host for a graph");
    std::memcpy(copied_.back(), from, bytes);
    return copied_.back();
  }
  void make(cudaGraph_t graph) {
    const cudaError_t made = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(made, "making a graph");
  }
  void replay(Stream stream) override { check(cudaGraphLaunch(executable_, stream), "starting a graph"); }

 private:
  cudaGraphExec_t executable_ = nullptr;
  std::vector<void*> copied_;
};

/// An event behind the work queued on a stream.
class Event final : public StreamMark {
 public:
  explicit Event(Stream stream) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
    check(cudaEventRecord(event_, stream), "an event of a stream");
  }
  ~Event() override { cudaEventDestroy(event_); }
  void precede(Stream stream) const {
    check(cudaStreamWaitEvent(stream, event_, 0), "a stream that waits for another");
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// The streams and memory of a device in use.
struct Open {
  Stream stream = nullptr, side = nullptr, input = nullptr;
  std::byte* base = nullptr;
  std::vector<CUmemGenericAllocationHandle> pieces{};  // pieces of the range; 0: not mapped
  std::unique_ptr<Graph> captured{};                   // set during a capture
  Staging staging{};
};

class Cuda final : public Backend {
 public:
  int device_count() const override { return static_cast<int>(usable().numbers.size()); }
  std::string problem() const override {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver)
      return "the NVIDIA driver is missing, or older than CUDA " + version(CUDART_VERSION) + " needs";
    if (error != cudaSuccess) return cudaGetErrorString(error);
    return left_out().empty() ? "no GPU was found" : fmt::format("{}", fmt::join(left_out(), "; "));
  }
  std::vector<std::string> left_out() const override { return usable().left_out; }
  std::string name(int device) const override { return properties(number_of(device)).name; }
  std::string identity(int device) const override {
    CUuuid uuid{};
    if (driver().uuid(&uuid, number_of(device)) != CUDA_SUCCESS) fail("cuda: the driver tells no UUID of a device");
    std::string text;
    for (const char byte : uuid.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return text;
  }

  Stream stream(int device) override { return made(device, &Open::stream); }
  Stream side_stream(int device) override { return made(device, &Open::side); }
  Stream input_stream(int device) override { return made(device, &Open::input); }
  void synchronize(Stream stream) override {
    if (captured(stream) != nullptr) throw_waits_while_captured();
    if (waits_are_watched())
      wait_until([&] {
        const cudaError_t state = cudaStreamQuery(stream);
        if (state != cudaErrorNotReady) check(state, "waiting for the device");
        return state == cudaSuccess;
      });
    else
      check(cudaStreamSynchronize(stream), "waiting for the device");
  }
  std::unique_ptr<StreamMark> mark(Stream stream) override { return std::make_unique<Event>(stream); }
  void wait_for(Stream stream, const StreamMark& mark) override { static_cast<const Event&>(mark).precede(stream); }
  void copy(Stream stream, void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "copying within the device");
  }
  // Pageable memory is staged before the call returns.
  void copy_in(Stream stream, void* to, const void* from, std::size_t bytes) override {
    if (Graph* const graph = captured(stream); graph != nullptr) {
      from = graph->keep(from, bytes);
    } else if (Open* const own = Staging::takes(bytes) ? opened(stream) : nullptr; own != nullptr) {
      const cudaError_t copied = own->staging.copy(stream, to, from, bytes);
      if (copied != cudaErrorMemoryAllocation) return check(copied, "copying to the device");
      if (waits_are_watched()) synchronize(stream);  // the driver's copy may wait, and asks nobody
    }
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "copying to the device");
  }
  void copy_out(Stream stream, void* to, const void* from, std::size_t bytes) override {
    if (captured(stream) != nullptr) throw_waits_while_captured();
    if (waits_are_watched()) synchronize(stream);  // the copy to pageable memory waits, and asks nobody
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "copying from the device");
    synchronize(stream);
  }
  void copy_out_later(Stream stream, void* to, const void* from, std::size_t bytes) override {
    if (captured(stream) != nullptr) throw_host_memory_captured();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "copying from the device");
  }
  void copy_in_later(Stream stream, void* to, const void* from, std::size_t bytes) override {
    if (captured(stream) != nullptr) throw_host_memory_captured();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "copying to the device");
  }
  bool pin(void* memory, std::size_t bytes) override {
    if (cudaHostRegister(memory, bytes, cudaHostRegisterDefault) == cudaSuccess) return true;
    cudaGetLastError();  // clears the error: a limit of the system (ulimit -l), which only makes copies slower
    return false;
  }
  void unpin(void* memory) noexcept override { cudaHostUnregister(memory); }
  void set_to_zero(Stream stream, void* to, std::size_t bytes) override {
    check(cudaMemsetAsync(to, 0, bytes, stream), "setting memory to zero");
  }

  void begin_capture(Stream stream) override {
    Open& own = of(stream);
    expect(own.captured == nullptr, "the work of a stream is captured already");
    // During a capture the driver maps memory and libraries create plans, which the stricter modes forbid.
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capturing a stream");
    own.captured = std::make_unique<Graph>();
  }
  std::unique_ptr<StreamGraph> end_capture(Stream stream) override {
    std::unique_ptr<Graph> graph = std::exchange(of(stream).captured, nullptr);
    expect(graph != nullptr, "the work of a stream was not captured");
    cudaGraph_t captured = nullptr;
    check(cudaStreamEndCapture(stream, &captured), "capturing a stream");
    graph->make(captured);
    return graph;
  }

  Card card(int device) const override {
    static const std::vector<Card> cards = [] {
      std::vector<Card> all;
      for (const int number : usable().numbers) {
        const cudaDeviceProp one = properties(number);
        all.push_back({.memory = static_cast<std::int64_t>(one.totalGlobalMem),
                       .cache = one.l2CacheSize,
                       .compute_capability = 10 * one.major + one.minor,
                       .device = static_cast<int>(all.size())});
      }
      return all;
    }();
    return cards.at(static_cast<std::size_t>(device));
  }
  std::int64_t capacity(int device) const override {
    std::size_t free = 0, total = 0;
    choose(device);
    check(cudaMemGetInfo(&free, &total), "asking for the free memory");
    const std::int64_t left = static_cast<std::int64_t>(free) - card_beside_tensors, whole = piece;
    return std::max<std::int64_t>(left, 0) / whole * whole;
  }

  std::byte* reserve(int device, std::size_t bytes) override {
    choose(device);
    Open& own = open_[static_cast<std::size_t>(device)];
    CUdeviceptr base = 0;
    if (driver().reserve(&base, bytes, piece, 0, 0) != CUDA_SUCCESS)
      fail("cuda: cannot reserve {} bytes of the device's addresses", bytes);
    own.pieces.assign(bytes / piece, 0);
    return own.base = reinterpret_cast<std::byte*>(base);
  }
  bool commit(int device, std::size_t begin, std::size_t end) override {
    Open& own = open_[static_cast<std::size_t>(device)];
    for (std::size_t i = begin / piece; i * piece < end; ++i)
      if (own.pieces[i] == 0 && !map(device, own, i)) return false;
    return true;
  }
  void decommit(int device, std::size_t begin, std::size_t end) noexcept override {
    Open& own = open_[static_cast<std::size_t>(device)];
    if (own.captured != nullptr) return;  // waiting for the device is an error during a capture
    bool waited = false;
    for (std::size_t i = (begin + piece - 1) / piece; (i + 1) * piece <= end; ++i) {
      if (own.pieces[i] == 0) continue;
      if (!std::exchange(waited, true) && !are_idle({own.stream, own.side, own.input})) return;
      driver().unmap(reinterpret_cast<CUdeviceptr>(own.base + i * piece), piece);
      driver().release(own.pieces[i]);
      own.pieces[i] = 0;
    }
  }

 private:
  /// The devices of the driver that this process sees, which do not change while it lives.
  static const UsableDevices& usable() {
    static const UsableDevices devices = [] {
      int count = 0;
      std::vector<VisibleDevice> visible;
      if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
      for (int number = 0; number < count; ++number) {
        const cudaDeviceProp device = properties(number);
        visible.push_back({device.name, device.major, device.minor});
      }
      UsableDevices found = usable_devices(visible);
      if (found.numbers.size() > max_devices) found.numbers.resize(max_devices);
      return found;
    }();
    return devices;
  }
  /// The driver's number of a device.
  static int number_of(int device) { return usable().numbers.at(static_cast<std::size_t>(device)); }
  static cudaDeviceProp properties(int number) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, number), "properties of the device");
    return properties;
  }
  /// Waits for the work of streams. False: it cannot end, which the next wait tells.
  bool are_idle(std::initializer_list<Stream> streams) noexcept {
    try {
      for (const Stream stream : streams)
        if (stream != nullptr) synchronize(stream);
    } catch (const Error&) {
      return false;
    }
    return true;
  }
  static void choose(int device) { check(cudaSetDevice(number_of(device)), "choosing the device"); }

  Stream made(int device, Stream Open::*which) {
    choose(device);
    Stream& stream = open_[static_cast<std::size_t>(device)].*which;
    const std::lock_guard lock(mutex_);
    if (stream == nullptr) {
      refuse_without_code(device);
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    }
    return stream;
  }
  /// The driver may make no code of this build's PTX: nvcc was newer than it. Where it makes some, it takes a while.
  static void refuse_without_code(int device) {
    const cudaDeviceProp here = properties(number_of(device));
    if (!has_code(LACUNA_CUDA_CODE, {here.name, here.major, here.minor}))
      std::fputs(fmt::format("lacuna: note: this build has no code for {} ({}.{}): the driver makes some, which takes "
                             "minutes the first time. -DLACUNA_CUDA_ARCHITECTURES=native builds it\n",
                             here.name, here.major, here.minor)
                     .c_str(),
                 stderr);
    cudaFuncAttributes of_kernel{};
    const cudaError_t error = cudaFuncGetAttributes(&of_kernel, any_kernel());
    if (error == cudaSuccess) return;
    cudaGetLastError();
    reject(
        "cuda: {} (compute capability {}.{}) cannot run the kernels of this build: {}. Build with "
        "-DLACUNA_CUDA_ARCHITECTURES=native, or install a driver for CUDA {} or newer",
        here.name, here.major, here.minor, cudaGetErrorString(error), version(CUDART_VERSION));
  }
  /// The device of a stream; null: another backend's.
  Open* opened(Stream stream) {
    const std::lock_guard lock(mutex_);
    const auto own = std::ranges::find_if(open_, [&](const Open& one) {
      return stream != nullptr && (one.stream == stream || one.side == stream || one.input == stream);
    });
    return own == open_.end() ? nullptr : &*own;
  }
  Open& of(Stream stream) {
    Open* const own = opened(stream);
    expect(own != nullptr, "a stream is none of the backend's");
    return *own;
  }
  /// The graph in which the stream's work is captured; null if there is no capture. A side stream waits for the main
  /// one before it works, so that a capture has both.
  Graph* captured(Stream stream) {
    const std::lock_guard lock(mutex_);
    for (const Open& own : open_)
      if (stream != nullptr && (own.stream == stream || own.side == stream)) return own.captured.get();
    return nullptr;
  }

  static std::string version(int number) {
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
  }

  static bool map(int device, Open& own, std::size_t index) {
    CUmemAllocationProp kind{};
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, number_of(device)};
    CUmemGenericAllocationHandle memory = 0;
    const CUresult created = driver().create(&memory, piece, &kind, 0);
    if (created == CUDA_ERROR_OUT_OF_MEMORY) return false;
    const auto address = reinterpret_cast<CUdeviceptr>(own.base + index * piece);
    CUmemAccessDesc access{};
    access.location = kind.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const bool mapped = created == CUDA_SUCCESS && driver().map(address, piece, 0, memory, 0) == CUDA_SUCCESS;
    if (mapped && driver().set_access(address, piece, &access, 1) == CUDA_SUCCESS) {
      own.pieces[index] = memory;
      return true;
    }
    if (mapped) driver().unmap(address, piece);
    if (created == CUDA_SUCCESS) driver().release(memory);
    fail("cuda: the driver cannot map {} bytes of device {}", piece, device);
  }

  std::mutex mutex_;
  std::array<Open, max_devices> open_{};
};

// Never destroyed, since tensors in static objects may be destroyed later.
const RegisterBackend registered{*new Cuda};

}  // namespace

}  // namespace lacuna::cuda
