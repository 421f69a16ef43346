// Matrix products by oneDNN's matmul primitive: bf16 by the processor's own instructions, summed in f32.
#pragma once

#include "core/tensor.h"

#include <cstdint>

namespace lacuna::onednn {

/// The processor's instructions for products of bf16 that oneDNN uses: of vectors (AVX512_BF16), at twice the rate of
/// f32, or of tiles (AMX), at many times that.
enum class Bf16Products : std::uint8_t { none, vectors, tiles };
Bf16Products bf16_products();
/// Whether oneDNN uses AVX-512.
bool has_avx512();
inline bool multiplies_bf16() { return bf16_products() != Bf16Products::none; }

/// A row-major matrix in host memory, read as its transpose if `transposed`.
struct TypedOperand {
  void* data;  // [rows, stride]; null on `meta`
  DType dtype;
  std::int64_t stride;
  bool transposed;
};

struct MatmulShape {
  std::int64_t m, n, k;
};

/// c [m, n] = a [m, k] · b [k, n] (+ c, if `add`) (+ bias, f32 [n], in each row, if it is defined). a and b are both
/// f32 or both bf16, c either; bf16 needs multiplies_bf16(). The workspace is allocated on `device`; on `meta` nothing
/// else happens. Runs on all threads; throws OutOfMemory if oneDNN has no memory.
void matmul(const MatmulShape& shape, const TypedOperand& a, const TypedOperand& b, bool add, const Tensor& bias,
            const TypedOperand& c, Device device);

}  // namespace lacuna::onednn
