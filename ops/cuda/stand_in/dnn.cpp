// cuDNN's operations by plain loops over f32: convolutions and attention are tested through it.
#include "ops/dnn_cuda.h"

#include "core/backend.h"
#include "core/stand_in/queue.h"
#include "ops/cuda/stand_in/values.h"
#include "ops/cuda_libraries.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace lacuna::cuda {
namespace {

std::vector<float> values_of(DType dtype, const void* data, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = value_at(dtype, data, i);
  return values;
}
void set_values(DType dtype, void* data, const std::vector<float>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) set_value(dtype, data, static_cast<std::int64_t>(i), values[i]);
}

/// Calls f(place in x, place in the weights, place in y) for all that a convolution multiplies.
template <class F>
void for_products(const ConvShape& s, const F& f) {
  const std::int64_t inputs = s.channels / s.groups, outputs = s.outputs / s.groups;
  for (std::int64_t n = 0; n < s.images; ++n)
    for (std::int64_t i = 0; i < s.out_height(); ++i)
      for (std::int64_t j = 0; j < s.out_width(); ++j)
        for (std::int64_t p = 0; p < s.kernel_height; ++p)
          for (std::int64_t q = 0; q < s.kernel_width; ++q) {
            const std::int64_t row = i * s.stride + p - s.padding.top, column = j * s.stride + q - s.padding.left;
            if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
            const std::int64_t x = ((n * s.height + row) * s.width + column) * s.channels;
            const std::int64_t y = ((n * s.out_height() + i) * s.out_width() + j) * s.outputs;
            for (std::int64_t o = 0; o < s.outputs; ++o)
              for (std::int64_t c = 0; c < inputs; ++c)
                f(static_cast<std::size_t>(x + o / outputs * inputs + c),
                  static_cast<std::size_t>(((o * s.kernel_height + p) * s.kernel_width + q) * inputs + c),
                  static_cast<std::size_t>(y + o));
          }
}

void convolve_now(const Convolution& what, const void* first, const void* second, void* result) {
  const ConvShape& s = what.shape;
  const std::int64_t x_count = s.images * s.height * s.width * s.channels,
                     y_count = s.images * s.out_height() * s.out_width() * s.outputs,
                     w_count = s.outputs * s.kernel_height * s.kernel_width * (s.channels / s.groups);
  const bool reads_x = what.pass == ConvolutionPass::forward,
             is_weights = what.pass == ConvolutionPass::weight_gradient;
  const std::vector<float> a = values_of(what.dtype, first, reads_x ? x_count : y_count),
                           b = values_of(what.dtype, second, is_weights ? x_count : w_count);
  std::vector<float> to(static_cast<std::size_t>(reads_x ? y_count : is_weights ? w_count : x_count));
  for_products(s, [&](std::size_t x, std::size_t w, std::size_t y) {
    if (reads_x)
      to[y] += a[x] * b[w];
    else if (is_weights)
      to[w] += a[y] * b[x];
    else
      to[x] += a[y] * b[w];
  });
  set_values(what.dtype, result, to);
}

/// Rows of one head of one sample.
struct HeadView {
  DType dtype;
  const void* data;
  std::int64_t first, stride;  // of elements
  float at(std::int64_t row, std::int64_t column) const { return value_at(dtype, data, first + row * stride + column); }
  void set(std::int64_t row, std::int64_t column, float value) const {
    set_value(dtype, const_cast<void*>(data), first + row * stride + column, value);
  }
};

/// Rows and masks of a call's samples, by lengths, offsets and mask.
struct Samples {
  const DenseAttention& a;
  const DenseAttentionPointers& to;

  static std::int64_t number(const void* table, std::int64_t i, std::int64_t without) {
    return table == nullptr ? without : static_cast<const std::int32_t*>(table)[i];
  }
  std::int64_t queries(std::int64_t sample) const { return number(to.query_lengths, sample, a.queries); }
  std::int64_t keys(std::int64_t sample) const { return number(to.key_lengths, sample, a.keys); }
  HeadView of_queries(const void* data, std::int64_t task, std::int64_t rows, std::int64_t stride) const {
    const std::int64_t sample = task / a.heads;
    return {a.dtype, data, number(to.query_offsets, sample, sample * rows * stride) + task % a.heads * a.head_dim,
            stride};
  }
  HeadView of_keys(const void* data, std::int64_t task, std::int64_t stride) const {
    const std::int64_t sample = task / a.heads, head = task % a.heads / (a.heads / a.kv_heads);
    return {a.dtype, data, number(to.key_offsets, sample, sample * a.keys * stride) + head * a.head_dim, stride};
  }
  /// The factor of dropout.
  float kept(std::int64_t task, std::int64_t query, std::int64_t key) const {
    if (!a.dropout) return 1;
    return value_at(a.dtype, to.mask, (task * a.queries + query) * a.keys + key) *
           *static_cast<const float*>(to.kept_scale);
  }
  /// Rows of a sample, padding included.
  std::int64_t rows(const void* offsets, std::int64_t sample, std::int64_t stride, std::int64_t without) const {
    if (offsets == nullptr) return without;
    return (number(offsets, sample + 1, 0) - number(offsets, sample, 0)) / stride;
  }
};

/// Writes `values` [count, head_dim]; the rows behind them, up to `rows`, hold anything afterwards.
void write_rows(const HeadView& to, std::int64_t count, std::int64_t rows, std::int64_t head_dim,
                const std::vector<float>& values) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t c = 0; c < head_dim; ++c)
      to.set(i, c, i < count ? values[static_cast<std::size_t>(i * head_dim + c)] : NAN);
}

void attend_now(const DenseAttention& a, const DenseAttentionPointers& to) {
  const Samples samples{a, to};
  std::vector<float> of_keys, of_values;  // [keys, head_dim], sums over the heads of q that share a head of k
  for (std::int64_t task = 0; task < a.samples * a.heads; ++task) {
    const std::int64_t sample = task / a.heads, head = task % a.heads, width = a.heads * a.head_dim;
    const std::int64_t group = a.heads / a.kv_heads, queries = samples.queries(sample), keys = samples.keys(sample);
    const HeadView q = samples.of_queries(to.q, task, a.query_rows, a.q_stride),
                   k = samples.of_keys(to.k, task, a.k_stride), v = samples.of_keys(to.v, task, a.v_stride),
                   y = samples.of_queries(to.y, task, a.queries, width);
    const std::int64_t query_rows = samples.rows(to.query_offsets, sample, width, a.queries),
                       key_rows = samples.rows(to.key_offsets, sample, a.kv_heads * a.head_dim, a.keys);
    float* const log_sums = to.log_sums + task * a.queries;
    std::vector<float> scores(static_cast<std::size_t>(queries * keys));  // [queries, keys]
    for (std::int64_t i = 0; i < queries; ++i)
      for (std::int64_t j = 0; j < keys; ++j) {
        float sum = 0;
        for (std::int64_t c = 0; c < a.head_dim; ++c) sum += q.at(i, c) * k.at(j, c);
        scores[static_cast<std::size_t>(i * keys + j)] = a.causal && j > i ? -INFINITY : a.scale * sum;
      }
    std::vector<float> of_queries(static_cast<std::size_t>(queries * a.head_dim));
    if (!a.backward) {
      for (std::int64_t i = 0; i < queries; ++i) {
        const auto row = scores.begin() + i * keys;
        const float largest = *std::max_element(row, row + keys);
        float sum = 0;
        for (auto score = row; score != row + keys; ++score) sum += std::exp(*score - largest);
        log_sums[i] = largest + std::log(sum);
        for (std::int64_t j = 0; j < keys; ++j) {
          const float p = std::exp(row[j] - log_sums[i]) * samples.kept(task, i, j);
          for (std::int64_t c = 0; c < a.head_dim; ++c)
            of_queries[static_cast<std::size_t>(i * a.head_dim + c)] += p * v.at(j, c);
        }
      }
      write_rows(y, queries, query_rows, a.head_dim, of_queries);
      continue;
    }
    const HeadView dy = samples.of_queries(to.dy, task, a.queries, width),
                   dq = samples.of_queries(to.dq, task, a.query_rows, a.dq_stride),
                   dk = samples.of_keys(to.dk, task, a.dk_stride), dv = samples.of_keys(to.dv, task, a.dv_stride);
    if (head % group == 0) of_values = of_keys = std::vector<float>(static_cast<std::size_t>(keys * a.head_dim));
    for (std::int64_t i = 0; i < queries; ++i) {
      float along = 0;  // Σ p ∘ dp
      for (std::int64_t c = 0; c < a.head_dim; ++c) along += dy.at(i, c) * y.at(i, c);
      for (std::int64_t j = 0; j < keys; ++j) {
        const float p = std::exp(scores[static_cast<std::size_t>(i * keys + j)] - log_sums[i]),
                    kept = samples.kept(task, i, j);
        float dp = 0;
        for (std::int64_t c = 0; c < a.head_dim; ++c) dp += dy.at(i, c) * v.at(j, c);
        const float ds = a.scale * p * (kept * dp - along);
        for (std::int64_t c = 0; c < a.head_dim; ++c) {
          of_queries[static_cast<std::size_t>(i * a.head_dim + c)] += ds * k.at(j, c);
          of_keys[static_cast<std::size_t>(j * a.head_dim + c)] += ds * q.at(i, c);
          of_values[static_cast<std::size_t>(j * a.head_dim + c)] += p * kept * dy.at(i, c);
        }
      }
    }
    write_rows(dq, queries, query_rows, a.head_dim, of_queries);
    if (head % group != group - 1) continue;
    write_rows(dk, keys, key_rows, a.head_dim, of_keys);
    write_rows(dv, keys, key_rows, a.head_dim, of_values);
  }
}

const RegisterKernel state{add_cuda_libraries, DeviceKind::cuda, [](std::vector<CudaLibrary>& libraries) {
                             libraries.push_back({.name = "products, convolutions, attention", .version = "host"});
                           }};

}  // namespace

bool has_plan(int, const Convolution&) { return true; }
bool has_plan(int device, const DenseAttention& what) {
  if (!what.backward && std::getenv("LACUNA_STAND_IN_WITHOUT_FORWARD") != nullptr) return false;
  return is_planned_on(backend(Device::cuda).card(device).compute_capability, what);
}

void convolve(Stream stream, int, const Convolution& what, const void* first, const void* second, void* result, void*) {
  stand_in::enqueue(stream, [=] { convolve_now(what, first, second, result); });
}

void attend(Stream stream, int, const DenseAttention& what, const DenseAttentionPointers& pointers, void*) {
  stand_in::enqueue(stream, [=] { attend_now(what, pointers); });
}

}  // namespace lacuna::cuda
