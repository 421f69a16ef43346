// Copies from the host's pageable memory to a device, for core/cuda/backend.cpp.
#pragma once

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
/// thread, at a third of this speed or less. The object is never destroyed.
class Staging {
 public:
  static constexpr std::size_t worthwhile = std::size_t{4} << 20;  // minimum bytes of a copy

  /// Copies to the device. If no memory can be pinned, copies nothing and returns cudaErrorMemoryAllocation.
  cudaError_t copy(Stream stream, void* to, const void* from, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    if (!is_made()) return cudaErrorMemoryAllocation;
    for (std::size_t begin = 0; begin < bytes; begin += buffer_bytes) {
      const Buffer& buffer = buffers_[next_++ % buffers_.size()];
      const std::size_t count = std::min(buffer_bytes, bytes - begin);
      cudaError_t error = cudaEventSynchronize(buffer.read);
      if (error != cudaSuccess) return error;
      const auto* const source = static_cast<const std::byte*>(from) + begin;
      parallel_for(static_cast<std::int64_t>(count), 1 << 20, [&](std::int64_t first, std::int64_t last) {
        std::memcpy(buffer.memory + first, source + first, static_cast<std::size_t>(last - first));
      });
      error =
          cudaMemcpyAsync(static_cast<std::byte*>(to) + begin, buffer.memory, count, cudaMemcpyHostToDevice, stream);
      if (error == cudaSuccess) error = cudaEventRecord(buffer.read, stream);
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  }

 private:
  static constexpr std::size_t buffer_bytes = std::size_t{4} << 20;
  struct Buffer {
    std::byte* memory = nullptr;
    cudaEvent_t read = nullptr;  // recorded behind the device's read of the buffer
  };

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
  std::size_t next_ = 0;
};

}  // namespace lacuna::cuda
