// Convolutions and attention by a library on a device: cuDNN (ops/cuda/libraries), or the host on the stand-in
// (ops/cuda/stand_in). What it does not compute kernels of our own do.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/convolution/conv_kernels.h"
#include "ops/cuda_libraries.h"

#include <algorithm>
#include <compare>
#include <cstdint>

namespace lacuna::cuda {

enum class ConvolutionPass : std::uint8_t { forward, input_gradient, weight_gradient };

/// forward: (x, weights) to y; input_gradient: (dy, weights) to dx; weight_gradient: (dy, x) to dweights. All in bf16
/// or f16, sums in f32. Weights are [outputs, kernel_height, kernel_width, channels / groups].
struct Convolution {
  ConvolutionPass pass;
  DType dtype;
  ConvShape shape;
  auto operator<=>(const Convolution&) const = default;
};

/// How the rows of samples lie: `queries` and `keys` of each; as many, of which the first ones are tokens; or packed
/// behind each other, `queries` and `keys` at most.
enum class SampleRows : std::uint8_t { equal, padded, packed };

/// y = dropout(softmax(scale · q·kᵀ)) · v for each sample and head, in bf16 or f16. heads is a multiple of kv_heads:
/// consecutive heads of q share one of k and v. causal: query i sees keys 0 to i. Rows of q, k and v (and of their
/// gradients) are `stride` elements apart, samples `query_rows` or `keys` rows; y and dy are [samples, queries, heads ·
/// head_dim]. Rows behind a sample's tokens hold anything afterwards.
struct DenseAttention {
  bool backward;
  DType dtype;
  std::int64_t samples, heads, kv_heads, queries, keys, head_dim;
  std::int64_t query_rows;  // of a sample of q and dq: the queries come first
  std::int64_t q_stride, k_stride, v_stride;
  std::int64_t dq_stride, dk_stride, dv_stride;  // of backward
  float scale;
  bool causal;
  SampleRows rows = SampleRows::equal;
  bool dropout = false;
  auto operator<=>(const DenseAttention&) const = default;
};
struct DenseAttentionPointers {
  const void *q, *k, *v;
  void* y;                   // written by forward, read by backward
  float* log_sums;           // [samples, heads, queries], as y
  const void* dy = nullptr;  // of backward
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  // Rows that are not equal: i32 [samples], tokens.
  const void *query_lengths = nullptr, *key_lengths = nullptr;
  // Packed: i32 [samples + 1], elements in front of a sample's.
  const void *query_offsets = nullptr, *key_offsets = nullptr;
  // With dropout: [samples, heads, queries, keys] of 0 and 1, and f32 [] each, 1 / (1 - rate) and 1 - rate.
  const void *mask = nullptr, *kept_scale = nullptr, *kept_share = nullptr;
};

/// Bytes of workspace that deterministic backward takes for a sample: cuDNN has dq in f32, for each 128 keys, and sums
/// of each query.
constexpr std::int64_t workspace_of_sample(const DenseAttention& a) {
  const std::int64_t tile = 128, tiles = (a.queries + tile - 1) / tile * tile, copies = (a.keys + tile - 1) / tile;
  const std::int64_t width = a.head_dim < 64 ? 64 : a.head_dim;
  return a.heads * tiles * (copies * width * 4 + 16);
}
inline constexpr std::int64_t most_attention_workspace = std::int64_t{512} << 20;
/// Bytes of a sample's mask of dropout.
constexpr std::int64_t mask_of_sample(const DenseAttention& a) {
  return a.dropout ? a.heads * a.queries * a.keys * 2 : 0;
}
/// Samples of a call, in parts of about one size. Workspace of backward and mask are no larger than library_workspace
/// or, if that is more, the gradients of q, k and v, which an MLP behind the attention exceeds; or those of one sample.
constexpr std::int64_t samples_at_once(const DenseAttention& a) {
  const std::int64_t of_sample = (a.backward ? workspace_of_sample(a) : 0) + mask_of_sample(a);
  if (of_sample == 0) return a.samples;
  const std::int64_t rows = a.heads * a.queries + 2 * a.kv_heads * a.keys, element = 2;
  const std::int64_t gradients = a.samples * rows * a.head_dim * element;
  const std::int64_t most = std::min(most_attention_workspace, std::max(library_workspace, gradients));
  const std::int64_t fitting = std::max<std::int64_t>(1, most / of_sample);
  const std::int64_t parts = (a.samples + fitting - 1) / fitting;
  return (a.samples + parts - 1) / parts;
}
/// Bytes of workspace of attention, a rule of the shape that a plan on `meta` knows.
constexpr std::int64_t workspace_for(const DenseAttention& a) {
  return a.backward ? std::max(library_workspace, a.samples * workspace_of_sample(a)) : library_workspace;
}
/// Kernels of our own compute what would take more: 16 heads from about 3,700 tokens on.
constexpr bool has_room(const DenseAttention& a) {
  return (a.backward ? workspace_of_sample(a) : 0) + mask_of_sample(a) <= most_attention_workspace;
}

/// Whether cuDNN has a plan for it on cards of this compute capability, one that adds in a fixed order (docs/cuda.md).
constexpr bool is_planned_on(int compute_capability, const DenseAttention& a) {
  const int major = compute_capability / 10;
  const bool plans_packed = major == 9 || major == 10, plans_dropout = major != 10;
  return !a.backward || ((a.rows != SampleRows::packed || plans_packed) && (!a.dropout || plans_dropout));
}
/// Whether `has_plan(part)` holds for the parts of a call of all its samples.
template <class F>
bool all_parts(DenseAttention what, const F& has_plan) {
  if (!has_room(what)) return false;
  const std::int64_t samples = what.samples, part = samples_at_once(what);
  for (const std::int64_t count : {part, samples - (samples - 1) / part * part}) {
    what.samples = count;
    if (!has_plan(what)) return false;
  }
  return true;
}

/// Whether the library is here and computes this within its workspace (library_workspace; of attention workspace_for),
/// with the same bits every run. Where it does not, library_notes says why.
bool has_plan(int device, const Convolution& what);
bool has_plan(int device, const DenseAttention& what);

/// Runs a convolution or attention that has a plan. workspace: [library_workspace] or [workspace_for] bytes of the
/// device.
void convolve(Stream stream, int device, const Convolution& what, const void* first, const void* second, void* result,
              void* workspace);
void attend(Stream stream, int device, const DenseAttention& what, const DenseAttentionPointers& pointers,
            void* workspace);

}  // namespace lacuna::cuda
