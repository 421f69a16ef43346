// Products on tensor cores, for .cu files. A warp multiplies matrices in shared memory; the sums are in f32.
#pragma once

#include "core/block.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#endif

namespace lacuna::cuda {

/// Sums [16, columns] that the threads of a warp have together; zeros at first. T: bf16 or f16, of the factors. All
/// threads of the warp call the same functions. Rows of matrices in shared memory start at multiples of 16 bytes, every
/// 16th of them at a multiple of 32.
template <class T, int columns>
class WarpSums {
  static_assert(is_half<T> && columns % 16 == 0);
  static constexpr int pieces = columns / 16;
#ifdef __CUDACC__
  using Element = std::conditional_t<std::is_same_v<T, bf16>, __nv_bfloat16, __half>;
  template <bool transposed>
  using Layout = std::conditional_t<transposed, nvcuda::wmma::col_major, nvcuda::wmma::row_major>;

 public:
  __device__ explicit WarpSums(int) {
#pragma unroll
    for (int i = 0; i < pieces; ++i) nvcuda::wmma::fill_fragment(sums_[i], 0.0F);
  }
  template <bool a_transposed, bool b_transposed>
  __device__ void add(const T* a, int a_stride, const T* b, int b_stride) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, Element, Layout<a_transposed>> left;
    load_matrix_sync(left, reinterpret_cast<const Element*>(a), static_cast<unsigned>(a_stride));
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
      fragment<matrix_b, 16, 16, 16, Element, Layout<b_transposed>> right;
      const T* const own = b + 16 * i * (b_transposed ? b_stride : 1);
      load_matrix_sync(right, reinterpret_cast<const Element*>(own), static_cast<unsigned>(b_stride));
      mma_sync(sums_[i], left, right, sums_[i]);
    }
  }
  __device__ void store(float* to, int stride) const {
#pragma unroll
    for (int i = 0; i < pieces; ++i)
      nvcuda::wmma::store_matrix_sync(to + 16 * i, sums_[i], static_cast<unsigned>(stride),
                                      nvcuda::wmma::mem_row_major);
  }

 private:
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sums_[pieces];
#else

 public:
  explicit WarpSums(int lane) : row_(lane / 2), column_(lane % 2 * (columns / 2)) {}
  /// += a [16, 16] · b [16, columns], whose rows are `stride` elements apart; transposed: as [columns, rows].
  template <bool a_transposed, bool b_transposed>
  void add(const T* a, int a_stride, const T* b, int b_stride) {
    for (const T* const matrix : {a, b}) stand_in::expect_aligned(matrix, 32);
    for (int k = 0; k < 16; ++k) {
      const float left = to_compute(a_transposed ? a[k * a_stride + row_] : a[row_ * a_stride + k]);
      for (int j = 0; j < columns / 2; ++j)
        sums_[j] += left * to_compute(b_transposed ? b[(column_ + j) * b_stride + k] : b[k * b_stride + column_ + j]);
    }
  }
  void store(float* to, int stride) const {
    stand_in::expect_aligned(to, 32);
    for (int j = 0; j < columns / 2; ++j) to[row_ * stride + column_ + j] = sums_[j];
  }

 private:
  int row_, column_;
  float sums_[columns / 2] = {};
#endif
};

}  // namespace lacuna::cuda
