// The memory and streams of cuda devices. A backend library implements them and registers the kernels of ops for
// DeviceKind::cuda: liblacuna_cuda over CUDA's runtime, and in tests liblacuna_stand_in, a device on the CPU. liblacuna
// itself needs no CUDA: it opens liblacuna_cuda when a cuda device is first asked for.
#pragma once

#include "core/device.h"
#include "core/stream.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {

/// Work of a stream that was captured.
class StreamGraph {
 public:
  virtual ~StreamGraph() = default;
  /// Queues all of it again.
  virtual void replay(Stream stream) = 0;
};

/// The work that had been queued on a stream at some time.
class StreamMark {
 public:
  virtual ~StreamMark() = default;
};

/// Work on memory is queued on a stream unless said otherwise. Each device has one stream for all of its kernels, so
/// that memory which is freed can be handed out at once. Errors of a device are thrown as Error.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Number of devices. 0: none can be used, and `problem` says why.
  virtual int device_count() const = 0;
  virtual std::string problem() const = 0;
  /// As `NVIDIA H100 80GB HBM3`.
  virtual std::string name(int device) const = 0;

  /// The stream of a device, which becomes this thread's current one.
  virtual Stream stream(int device) = 0;
  /// Another stream of the device, for what goes on beside its kernels.
  virtual Stream side_stream(int device) = 0;
  virtual void synchronize(Stream stream) = 0;
  virtual std::unique_ptr<StreamMark> mark(Stream stream) = 0;
  /// Work queued on `stream` from here on begins after the work of `mark`.
  virtual void wait_for(Stream stream, const StreamMark& mark) = 0;
  /// Both in the memory of the device.
  virtual void copy(Stream stream, void* to, const void* from, std::size_t bytes) = 0;
  /// From the memory of the host, which may change as soon as this returns.
  virtual void copy_in(Stream stream, void* to, const void* from, std::size_t bytes) = 0;
  /// To the memory of the host. Waits for all work before it, and for the copy.
  virtual void copy_out(Stream stream, void* to, const void* from, std::size_t bytes) = 0;
  /// To and from memory of the host when the stream comes to it: the memory stays, and stays as it is, until then.
  /// Beside the work of other streams if it is pinned.
  virtual void copy_out_later(Stream stream, void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_in_later(Stream stream, void* to, const void* from, std::size_t bytes) = 0;
  /// Keeps the pages of host memory where they are. False if the system does not allow it.
  virtual bool pin(void* memory, std::size_t bytes) = 0;
  virtual void unpin(void* memory) noexcept = 0;
  virtual void set_to_zero(Stream stream, void* to, std::size_t bytes) = 0;

  /// Work queued from here on is captured, not run. Waiting for the device is an error meanwhile. A replay copies in
  /// the bytes that copy_in was given during capture.
  virtual void begin_capture(Stream stream) = 0;
  /// Throws Error if something could not be captured.
  virtual std::unique_ptr<StreamGraph> end_capture(Stream stream) = 0;

  /// Bytes that tensors may take on a device.
  virtual std::int64_t capacity(int device) const = 0;
  /// A range of addresses without memory. A device has one; it is never given back.
  virtual std::byte* reserve(int device, std::size_t bytes) = 0;
  /// Puts memory behind [begin, end) of the range, in pieces. False if the device has none left.
  virtual bool commit(int device, std::size_t begin, std::size_t end) = 0;
  /// Takes the pieces that lie in [begin, end) back, after all work on them.
  virtual void decommit(int device, std::size_t begin, std::size_t end) noexcept = 0;
};

/// The backend of a cuda device. Opens the library if none is there; throws Error (the input's fault) if there is none,
/// or no such device.
Backend& backend(Device device);

/// The cuda devices of this machine; if there are none, why.
struct CudaDevices {
  std::vector<std::string> names{};
  std::string problem{};
};
CudaDevices find_cuda_devices();

/// Waits for the work that was queued on a device; there is none on others than cuda.
void synchronize(Device device);

/// The stream on which this thread's kernels for a cuda device run.
Stream stream_of(Device device);

/// While it lives, the kernels that this thread starts for a cuda device run on its side stream, after all that was
/// queued on its own stream before. Memory that they use must not be released before that stream waits for `mark`.
class SideStreamScope {
 public:
  explicit SideStreamScope(Device device);
  ~SideStreamScope();
  SideStreamScope(const SideStreamScope&) = delete;
  SideStreamScope& operator=(const SideStreamScope&) = delete;

  /// The work that was queued in it.
  std::unique_ptr<StreamMark> mark() const;

 private:
  Device device_;
  Stream outer_;
};
/// The kernels that are queued on the device's own stream from here on begin after the work of `mark`.
void wait_for(Device device, const StreamMark& mark);

/// Registers the backend of a library, as a static object in it.
struct RegisterBackend {
  explicit RegisterBackend(Backend& backend);
};

}  // namespace lacuna
