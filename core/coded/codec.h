// Encoding and decoding of weights in few bits.
#pragma once

#include "core/coded/format.h"
#include "core/kernel.h"

#include <cstdint>
#include <span>

namespace lacuna {

class Tensor;

/// A rectangle of a coded matrix [rows, width], and where it is decoded to.
struct CodedPart {
  std::int64_t first_row = 0, rows = 0, first_column = 0, columns = 0;
};

/// Decodes a part of `coded`, seen as [count / last axis, last axis], to `out` [rows · columns], which has no gaps.
void decode(const Tensor& coded, const CodedPart& part, const Tensor& out);
/// Decodes all of `coded`.
void decode(const Tensor& coded, const Tensor& out);
/// Decodes rows `ids` (i64 [n], each in [0, V)) of `coded` [V, C] to `out` [n, C]. An id outside throws an Error on the
/// CPU and makes the row NaN on cuda, where the host does not wait for ids.
void decode_rows(const Tensor& coded, const Tensor& ids, const Tensor& out);
/// Whether weights of `format` with `counts` elements can be one tensor without decoding: blocks end where parts do.
bool can_join(const WeightFormat& format, std::span<const std::int64_t> counts);
/// Copies codes and scales of `part` to the elements of `whole` from `first` on, which decode to the same bits. Both on
/// the CPU and of one format; the scales of `whole` are not nested.
void copy_part(const Tensor& part, std::int64_t first, const Tensor& whole);
/// Encodes `values` of equal count: scales are the largest magnitudes of blocks, codes the nearest ones.
void encode(const Tensor& values, const Tensor& coded);

// Kernels, for checked tensors: `out` is f32, f64 or bf16 (on cuda f32, bf16 or f16). encode_kernel has one for the CPU
// alone: weights come from the host.
inline constinit Kernel<void(const Tensor& coded, const CodedPart& part, const Tensor& out)> decode_kernel{
    "decoding of weights"};
inline constinit Kernel<void(const Tensor& coded, const Tensor& ids, const Tensor& out)> decode_rows_kernel{
    "decoding of rows of weights"};
inline constinit Kernel<void(const Tensor& values, const Tensor& coded)> encode_kernel{"encoding of weights"};

}  // namespace lacuna
