// The vocabulary of kernels in .cu files: a block of threads, a warp, and memory. A kernel is a struct whose
// members are its arguments:
//
//   struct Scale {
//     static constexpr int threads = 256;              // threads per block
//     static constexpr int blocks_together = 4;        // minimum blocks per multiprocessor; optional
//     struct Shared { float sums[threads / 32]; };     // shared memory of a block; optional
//     float* y; const float* x; std::int64_t count;
//     LACUNA_DEVICE void operator()(const Block<Scale>& block) const;
//   };
//   run(stream, blocks, Scale{.y = y, .x = x, .count = n});
//
// nvcc compiles it to device code. Any other compiler builds a version that runs on the CPU (core/stand_in): each
// thread of a block is a fiber, so barriers, warp shuffles and shared memory behave as on a GPU. Kernels are tested
// this way without a GPU.
//
// To port an op, write three files beside its `X.cpp`; no list names them:
//
//   X_cuda.h    the launchers: a struct of raw pointers and extents, and a function that takes it. Light headers only.
//   X.cu        the kernels, and the launchers that start them. It includes core/block.h, core/number.h, core/math.h,
//               core/random.h, formulas, layouts, and no header with fmt or Tensor (tests/core/device_code.cpp).
//   X_cuda.cpp  RegisterKernel for DeviceKind::cuda: asks tensors for their pointers and calls the launcher.
//
// ops/cuda has the code that kernels share: reading and writing eight elements at a time, reading saved tensors that
// may be quantized, rows of a block, maps, slice copies, block sums. Models to follow: ops/activation for elementwise
// ops, ops/layer_norm for ops that reduce each row and sum over rows, ops/arithmetic for ops without saved tensors.
// tests/ops/op_matrix_cuda.cpp then runs the op in f32, bf16 and f16.
//
// Rules that the tests hold kernels to:
// - Results are bitwise independent of the order of threads and blocks: no floating-point atomics; partial sums of
//   several blocks go to memory, and a second kernel adds them in order. The number of blocks depends on shapes only.
// - Arithmetic is in float for every type, as on the CPU; formulas are the functors of ops/formulas.h.
// - The host never reads a kernel's results: scalars stay tensors, and kernels take pointers to them.
// - Loads and stores move 16 bytes (load_pack) where rows are long enough and aligned; any width works.
// - Register spills are warnings of the build.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "core/stand_in/fibers.h"

#include <cmath>
#include <cstring>
#endif

namespace lacuna::cuda {

inline constexpr int warp_size = 32;
inline constexpr std::size_t max_shared_bytes = 99 * 1024;  // per block, on every GPU since sm_80

template <class K>
concept has_shared = requires {
  typename K::Shared;
};

template <class K>
constexpr std::size_t shared_bytes() {
  if constexpr (has_shared<K>)
    return sizeof(typename K::Shared);
  else
    return 0;
}

template <class K>
constexpr int blocks_together() {
  if constexpr (requires { K::blocks_together; })
    return K::blocks_together;
  else
    return 1;
}

/// A thread's view of its block.
template <class K>
class Block {
 public:
  static constexpr int threads = K::threads, warps = (K::threads + warp_size - 1) / warp_size;
#ifdef __CUDACC__
  __device__ explicit Block(std::byte* shared) : shared_(shared) {}
  __device__ std::int64_t index() const { return blockIdx.x; }
  __device__ std::int64_t count() const { return gridDim.x; }
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  /// A barrier of the block's threads; their earlier writes are visible after it.
  __device__ void sync() const { __syncthreads(); }
#else
  Block(std::byte* shared, std::int64_t index, std::int64_t count, int thread)
      : shared_(shared), index_(index), count_(count), thread_(thread) {}
  std::int64_t index() const { return index_; }
  std::int64_t count() const { return count_; }
  int thread() const { return thread_; }
  void sync() const { stand_in::sync(); }
#endif
  LACUNA_DEVICE int lane() const { return thread() % warp_size; }
  LACUNA_DEVICE int warp() const { return thread() / warp_size; }
  /// The thread's index over all blocks.
  LACUNA_DEVICE std::int64_t global_thread() const { return index() * threads + thread(); }
  /// The block's shared memory, uninitialised (NaN on the stand-in).
  LACUNA_DEVICE auto& shared() const { return *reinterpret_cast<typename K::Shared*>(shared_); }

 private:
  std::byte* shared_;
#ifndef __CUDACC__
  std::int64_t index_, count_;
  int thread_;
#endif
};

// Warp shuffles. All threads of the warp take part. T: any type of 4 or 8 bytes.

#ifdef __CUDACC__
template <class T>
using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, unsigned long long>;
#endif

/// The value of lane (own lane xor `lanes`).
template <class T>
LACUNA_DEVICE inline T exchange(T value, int lanes) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
#ifdef __CUDACC__
  return std::bit_cast<T>(__shfl_xor_sync(0xffffffffU, std::bit_cast<Word<T>>(value), lanes));
#else
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  word = stand_in::exchange(word, [&](int lane) { return lane ^ lanes; });
  std::memcpy(&value, &word, sizeof value);
  return value;
#endif
}
/// The value of lane `lane`.
template <class T>
LACUNA_DEVICE inline T of_lane(T value, int lane) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
#ifdef __CUDACC__
  return std::bit_cast<T>(__shfl_sync(0xffffffffU, std::bit_cast<Word<T>>(value), lane));
#else
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  word = stand_in::exchange(word, [&](int) { return lane; });
  std::memcpy(&value, &word, sizeof value);
  return value;
#endif
}
/// Bit i: whether `predicate` holds on lane i.
LACUNA_DEVICE inline std::uint32_t ballot(bool predicate) {
#ifdef __CUDACC__
  return __ballot_sync(0xffffffffU, predicate);
#else
  return stand_in::ballot(predicate);
#endif
}
/// Reduces the values of 2^k neighbouring lanes by `join`; all of them get the result. The tree has a fixed shape.
template <int lanes = warp_size, class T, class F>
LACUNA_DEVICE inline T joined(T value, const F& join) {
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) value = join(value, exchange(value, step));
  return value;
}
struct Plus {
  template <class T>
  LACUNA_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
struct Larger {
  template <class T>
  LACUNA_DEVICE T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
template <int lanes = warp_size, class T>
LACUNA_DEVICE inline T sum_of_lanes(T value) {
  return joined<lanes>(value, Plus{});
}

/// Reduces the values of all threads of a block by `join`; all of them get the result. `scratch`: [warps] in shared
/// memory, not read or written between this call and the block's next barrier.
template <class K, class T, class F>
LACUNA_DEVICE inline T joined_of_block(const Block<K>& block, T value, T* scratch, const F& join) {
  static_assert(K::threads % warp_size == 0);
  value = joined(value, join);
  if constexpr (Block<K>::warps > 1) {
    if (block.lane() == 0) scratch[block.warp()] = value;
    block.sync();
    value = scratch[0];
#pragma unroll
    for (int w = 1; w < Block<K>::warps; ++w) value = join(value, scratch[w]);
  }
  return value;
}

/// Atomic sum and maximum across blocks. For integers only, whose results do not depend on the order.
LACUNA_DEVICE inline void add_together(std::uint32_t* sum, std::uint32_t value) {
#ifdef __CUDACC__
  atomicAdd(sum, value);
#else
  __atomic_fetch_add(sum, value, __ATOMIC_RELAXED);
#endif
}

LACUNA_DEVICE inline void raise_together(std::uint32_t* most, std::uint32_t value) {
#ifdef __CUDACC__
  atomicMax(most, value);
#else
  for (std::uint32_t seen = __atomic_load_n(most, __ATOMIC_RELAXED); seen < value;)
    if (__atomic_compare_exchange_n(most, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
#endif
}

/// Elements that are loaded or stored in one instruction: 16 bytes or fewer.
template <class T, int n>
struct alignas(sizeof(T) * n) Pack {
  T values[n];
  LACUNA_DEVICE T& operator[](int i) { return values[i]; }
  LACUNA_DEVICE const T& operator[](int i) const { return values[i]; }
};
template <class T>
inline constexpr int pack_size = 16 / static_cast<int>(sizeof(T));

template <int n, class T>
LACUNA_DEVICE inline Pack<T, n> load_pack(const T* from) {
#ifndef __CUDACC__
  stand_in::expect_aligned(from, sizeof(Pack<T, n>));
#endif
  return *reinterpret_cast<const Pack<T, n>*>(from);
}

#ifdef __CUDACC__
LACUNA_DEVICE inline std::uint32_t bits_of(bf16 value) { return value.bits; }
LACUNA_DEVICE inline std::uint32_t bits_of(f16 value) { return value.bits; }
template <class T>
LACUNA_DEVICE inline std::uint32_t bits_of(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 1);
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<std::uint32_t>(value);
  else
    return std::bit_cast<std::uint8_t>(value);
}
/// Four bytes of a pack.
template <class T, int n>
LACUNA_DEVICE inline std::uint32_t word_of(const Pack<T, n>& pack, int word) {
  constexpr int elements = 4 / static_cast<int>(sizeof(T));
  std::uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < elements; ++i) bits |= bits_of(pack[word * elements + i]) << (32 / elements * i);
  return bits;
}
#endif

template <class T, int n>
LACUNA_DEVICE inline void store_pack(T* to, const Pack<T, n>& pack) {
#ifdef __CUDACC__
  // Stores 32-bit words, since nvcc stores a struct of small elements one by one.
  if constexpr (sizeof pack == 16)
    *reinterpret_cast<uint4*>(to) = make_uint4(word_of(pack, 0), word_of(pack, 1), word_of(pack, 2), word_of(pack, 3));
  else if constexpr (sizeof pack == 8)
    *reinterpret_cast<uint2*>(to) = make_uint2(word_of(pack, 0), word_of(pack, 1));
  else if constexpr (sizeof pack == 4)
    *reinterpret_cast<std::uint32_t*>(to) = word_of(pack, 0);
  else
    *reinterpret_cast<Pack<T, n>*>(to) = pack;
#else
  stand_in::expect_aligned(to, sizeof pack);
  *reinterpret_cast<Pack<T, n>*>(to) = pack;
#endif
}
/// Stores 16 bytes to the device's memory in one instruction, which nvcc does not always find by itself.
template <class T, int n>
LACUNA_DEVICE inline void store_to_global(T* to, const Pack<T, n>& pack) {
  static_assert(sizeof pack == 16);
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(to)), "r"(word_of(pack, 0)), "r"(word_of(pack, 1)), "r"(word_of(pack, 2)),
                 "r"(word_of(pack, 3))
               : "memory");
#else
  store_pack(to, pack);
#endif
}
/// Whether packs of 16 bytes can be loaded at `pointer`.
template <class T>
LACUNA_HOST_DEVICE bool is_aligned(const T* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

inline std::int64_t divide_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit; }

#ifdef __CUDACC__
template <class K>
__global__ void __launch_bounds__(K::threads, blocks_together<K>()) entry(const __grid_constant__ K kernel) {
  extern __shared__ __align__(32) std::byte shared[];
  kernel(Block<K>(shared));
}
#endif

/// Starts `blocks` blocks of a kernel on the stream; none if `blocks` is 0.
template <class K>
void run(Stream stream, std::int64_t blocks, const K& kernel) {
  static_assert(std::is_trivially_copyable_v<K> && sizeof(K) <= 4096 && shared_bytes<K>() <= max_shared_bytes);
  if (blocks == 0) return;
  if (blocks < 0 || blocks > 0x7fffffff) throw_launch_failed("it has more than 2^31 blocks");
#ifdef __CUDACC__
  if constexpr (shared_bytes<K>() > 48 * 1024) {
    // Each time: the attribute is one of the current device.
    const cudaError_t raised = cudaFuncSetAttribute(entry<K>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                    static_cast<int>(shared_bytes<K>()));
    if (raised != cudaSuccess) throw_launch_failed(cudaGetErrorString(raised));
  }
  entry<K><<<static_cast<unsigned>(blocks), K::threads, shared_bytes<K>(), stream>>>(kernel);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    throw_launch_failed(cudaGetErrorString(error));
#else
  stand_in::launch(stream, {.blocks = blocks, .threads = K::threads, .shared_bytes = shared_bytes<K>()},
                   [kernel, blocks](std::byte* shared, std::int64_t block, int thread) {
                     kernel(Block<K>(shared, block, blocks, thread));
                   });
#endif
}

}  // namespace lacuna::cuda
