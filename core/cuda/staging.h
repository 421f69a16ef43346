// Copies from the host's pageable memory to a device, for core/cuda/backend.cpp.
#pragma once

#include "core/backend.h"
#include "core/parallel.h"
#include "core/stream.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace lacuna::cuda {

/// A ring of pinned buffers: several threads fill one while the device reads another. The driver stages with one
/// thread, at a third of this speed or less. Small copies share a buffer. The object is never destroyed.
class Staging {
 public:
  /// Whether a copy is worth it: a large one, or any where waits are watched, since nobody watches the driver's.
  static bool takes(std::size_t bytes) { return bytes >= buffer_bytes || waits_are_watched(); }

  /// Copies to the device. If no memory can be pinned, copies nothing and returns cudaErrorMemoryAllocation. Throws
  /// what a check of the wait throws.
  cudaError_t copy(Stream stream, void* to, const void* from, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    if (!is_made()) return cudaErrorMemoryAllocation;
    for (std::size_t begin = 0; begin < bytes;) {
      std::size_t count = bytes - begin;
      if (used_ == buffer_bytes || stream != stream_ || (count < buffer_bytes && count > buffer_bytes - used_)) {
        if (const cudaError_t error = turn_to_next(); error != cudaSuccess) return error;
        stream_ = stream;
      }
      count = std::min(buffer_bytes - used_, count);
      std::byte* const place = buffers_[current_].memory + used_;
      const auto* const source = static_cast<const std::byte*>(from) + begin;
      parallel_for(static_cast<std::int64_t>(count), 1 << 20, [&](std::int64_t first, std::int64_t last) {
        std::memcpy(place + first, source + first, static_cast<std::size_t>(last - first));
      });
      used_ += count;
      cudaError_t error =
          cudaMemcpyAsync(static_cast<std::byte*>(to) + begin, place, count, cudaMemcpyHostToDevice, stream);
      if (error == cudaSuccess) error = cudaEventRecord(buffers_[current_].read, stream);
      if (error != cudaSuccess) return error;
      begin += count;
    }
    return cudaSuccess;
  }

 private:
  static constexpr std::size_t buffer_bytes = std::size_t{4} << 20;
  struct Buffer {
    std::byte* memory = nullptr;
    cudaEvent_t read = nullptr;  // recorded behind the device's last read of the buffer
  };

  /// Waits until the device has read the next buffer.
  cudaError_t turn_to_next() {
    const std::size_t next = (current_ + 1) % buffers_.size();
    cudaError_t state = cudaSuccess;
    if (waits_are_watched())
      wait_until([&] { return (state = cudaEventQuery(buffers_[next].read)) != cudaErrorNotReady; });
    else
      state = cudaEventSynchronize(buffers_[next].read);
    if (state != cudaSuccess) return state;
    current_ = next;
    used_ = 0;
    return cudaSuccess;
  }

  bool is_made() {
    for (Buffer& buffer : buffers_) {
      if (buffer.memory != nullptr) continue;
      void* memory = nullptr;
      if (buffer.read == nullptr && cudaEventCreateWithFlags(&buffer.read, cudaEventDisableTiming) != cudaSuccess)
        return false;
      if (cudaMallocHost(&memory, buffer_bytes) != cudaSuccess) {
        cudaGetLastError();  // clears the error: a limit of the system (ulimit -l)
        return false;
      }
      buffer.memory = static_cast<std::byte*>(memory);
    }
    return true;
  }

  std::mutex mutex_;
  std::array<Buffer, 3> buffers_{};
  std::size_t current_ = 0, used_ = buffer_bytes;  // bytes of the current buffer that are copied from it
  Stream stream_ = nullptr;                        // that reads the current buffer
};

}  // namespace lacuna::cuda
