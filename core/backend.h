// The memory and streams of cuda devices. A backend library implements them and registers the kernels of ops for
// DeviceKind::cuda: liblacuna_cuda over CUDA's runtime, and in tests liblacuna_stand_in, a device on the CPU. liblacuna
// itself needs no CUDA: it opens liblacuna_cuda when a cuda device is first asked for.
#pragma once

#include "core/card.h"
#include "core/device.h"
#include "core/stream.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {

/// The captured work of a stream.
class StreamGraph {
 public:
  virtual ~StreamGraph() = default;
  /// Queues all the captured work again.
  virtual void replay(Stream stream) = 0;
};

/// A point in a stream: all work queued before it (a CUDA event).
class StreamMark {
 public:
  virtual ~StreamMark() = default;
};

/// Copies and fills are queued on a stream unless noted otherwise. Each device runs all its kernels on one stream, so
/// freed memory can be reused at once. Device errors are thrown as Error.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Number of usable devices. 0: none is; `problem` says why.
  virtual int device_count() const = 0;
  virtual std::string problem() const = 0;
  /// Devices that are there and cannot be used, each with the reason.
  virtual std::vector<std::string> left_out() const = 0;
  /// The device's name, such as `NVIDIA H100 80GB HBM3`.
  virtual std::string name(int device) const = 0;
  /// Tells the device, or the part of one, from all others of the machine: its UUID.
  virtual std::string identity(int device) const = 0;

  /// The device's stream. Makes the device current for this thread. Throws Error (the input's fault) if the device
  /// cannot run the kernels of this build.
  virtual Stream stream(int device) = 0;
  /// A second stream of the device, for copies that overlap with its kernels.
  virtual Stream side_stream(int device) = 0;
  /// A third one, for batches that are copied ahead. It has no part in captures.
  virtual Stream input_stream(int device) = 0;
  virtual void synchronize(Stream stream) = 0;
  virtual std::unique_ptr<StreamMark> mark(Stream stream) = 0;
  /// Work queued on `stream` from here on begins after the work of `mark`.
  virtual void wait_for(Stream stream, const StreamMark& mark) = 0;
  /// Copies within device memory.
  virtual void copy(Stream stream, void* to, const void* from, std::size_t bytes) = 0;
  /// Copies from host memory, which may change as soon as this returns.
  virtual void copy_in(Stream stream, void* to, const void* from, std::size_t bytes) = 0;
  /// Copies to host memory. Waits for all earlier work and for the copy.
  virtual void copy_out(Stream stream, void* to, const void* from, std::size_t bytes) = 0;
  /// Asynchronous copies to and from host memory, which must stay allocated and unchanged until the stream reaches
  /// them. They overlap with the work of other streams if the memory is pinned.
  virtual void copy_out_later(Stream stream, void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_in_later(Stream stream, void* to, const void* from, std::size_t bytes) = 0;
  /// Pins host memory. Returns false if the system refuses.
  virtual bool pin(void* memory, std::size_t bytes) = 0;
  virtual void unpin(void* memory) noexcept = 0;
  virtual void set_to_zero(Stream stream, void* to, std::size_t bytes) = 0;

  /// Work queued from here on is captured, not run. Waiting for the device is an error meanwhile. A replay copies in
  /// the bytes that copy_in was given during capture.
  virtual void begin_capture(Stream stream) = 0;
  /// Ends the capture. Throws Error if an operation could not be captured.
  virtual std::unique_ptr<StreamGraph> end_capture(Stream stream) = 0;

  virtual Card card(int device) const = 0;
  /// Bytes of device memory available to tensors.
  virtual std::int64_t capacity(int device) const = 0;
  /// Reserves a range of addresses without memory behind it. Each device has one, which is never released.
  virtual std::byte* reserve(int device, std::size_t bytes) = 0;
  /// Maps device memory to [begin, end) of the range, in pieces. Returns false if the device has none left.
  virtual bool commit(int device, std::size_t begin, std::size_t end) = 0;
  /// Unmaps the pieces in [begin, end) once all work on them is done.
  virtual void decommit(int device, std::size_t begin, std::size_t end) noexcept = 0;
};

/// The backend of a cuda device. Opens the backend library on first use; throws Error (the input's fault) if the
/// library or the device does not exist.
Backend& backend(Device device);

/// The cuda devices of this machine, or the reason why there are none.
struct CudaDevices {
  std::vector<std::string> names{}, identities{};
  std::vector<std::string> left_out{};  // devices that cannot be used, each with the reason
  std::string problem{};
  /// `left_out`, and why the kernels of this build do not run on others. Takes the devices into use.
  std::vector<std::string> problems() const;
};
CudaDevices find_cuda_devices();

/// Why the kernels of this build do not run on the device; empty: they do. Takes the device into use.
std::string problem_of(Device device);

/// Asked about every ten milliseconds while the host waits for a device, with the seconds that it has waited. Throws
/// where the work cannot end: another process takes part in it.
using WaitCheck = std::function<void(double seconds)>;
/// Adds a check for the life of the process.
void watch_waits(WaitCheck check);
bool waits_are_watched();
/// Waits until `done`, and asks the checks meanwhile. The thread sleeps, since others prepare batches.
void wait_until(const std::function<bool()>& done);

/// Waits for all work queued on a cuda device; returns at once for other kinds.
void synchronize(Device device);

/// The stream on which this thread's kernels for a cuda device run.
Stream stream_of(Device device);

/// While this object lives, kernels that this thread starts for a cuda device run on its side stream, after all work
/// queued on the main stream before. Memory they use must not be released before the main stream waits for `mark`.
class SideStreamScope {
 public:
  explicit SideStreamScope(Device device);
  ~SideStreamScope();
  SideStreamScope(const SideStreamScope&) = delete;
  SideStreamScope& operator=(const SideStreamScope&) = delete;

  /// A mark behind the work queued in this scope.
  std::unique_ptr<StreamMark> mark() const;

 private:
  Device device_;
};
/// Kernels queued on the device's main stream after this call start once the work before `mark` is done.
void wait_for(Device device, const StreamMark& mark);

/// Registers the backend of a library, as a static object in it.
struct RegisterBackend {
  explicit RegisterBackend(Backend& backend);
};

}  // namespace lacuna
