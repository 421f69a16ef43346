// cuDNN's operations by plain loops over f32: convolutions and attention are tested through it.
#include "ops/dnn_cuda.h"

#include "core/stand_in/queue.h"
#include "ops/cuda/stand_in/values.h"
#include "ops/cuda_libraries.h"

#include <algorithm>
#include <cmath>
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

void attend_now(const DenseAttention& a, const DenseAttentionPointers& to) {
  std::vector<float> of_keys, of_values;  // [keys, head_dim], sums over the heads of q that share a head of k
  for (std::int64_t task = 0; task < a.samples * a.heads; ++task) {
    const std::int64_t sample = task / a.heads, head = task % a.heads, width = a.heads * a.head_dim;
    const std::int64_t group = a.heads / a.kv_heads;
    const auto view = [&](const void* data, std::int64_t rows, std::int64_t stride) {
      return HeadView{a.dtype, data, sample * rows * stride + head * a.head_dim, stride};
    };
    const auto view_of_keys = [&](const void* data, std::int64_t stride) {
      return HeadView{a.dtype, data, sample * a.keys * stride + head / group * a.head_dim, stride};
    };
    const HeadView q = view(to.q, a.query_rows, a.q_stride), k = view_of_keys(to.k, a.k_stride),
                   v = view_of_keys(to.v, a.v_stride), y = view(to.y, a.queries, width);
    float* const log_sums = to.log_sums + task * a.queries;
    std::vector<float> scores(static_cast<std::size_t>(a.queries * a.keys));  // [queries, keys]
    for (std::int64_t i = 0; i < a.queries; ++i)
      for (std::int64_t j = 0; j < a.keys; ++j) {
        float sum = 0;
        for (std::int64_t c = 0; c < a.head_dim; ++c) sum += q.at(i, c) * k.at(j, c);
        scores[static_cast<std::size_t>(i * a.keys + j)] = a.causal && j > i ? -INFINITY : a.scale * sum;
      }
    if (!a.backward) {
      for (std::int64_t i = 0; i < a.queries; ++i) {
        const auto row = scores.begin() + i * a.keys;
        const float largest = *std::max_element(row, row + a.keys);
        float sum = 0;
        for (auto score = row; score != row + a.keys; ++score) sum += std::exp(*score - largest);
        log_sums[i] = largest + std::log(sum);
        for (std::int64_t c = 0; c < a.head_dim; ++c) {
          float value = 0;
          for (std::int64_t j = 0; j < a.keys; ++j) value += std::exp(row[j] - log_sums[i]) * v.at(j, c);
          y.set(i, c, value);
        }
      }
      continue;
    }
    const HeadView dy = view(to.dy, a.queries, width), dq = view(to.dq, a.query_rows, a.dq_stride),
                   dk = view_of_keys(to.dk, a.dk_stride), dv = view_of_keys(to.dv, a.dv_stride);
    std::vector<float> of_queries(static_cast<std::size_t>(a.queries * a.head_dim));
    if (head % group == 0) of_values = of_keys = std::vector<float>(static_cast<std::size_t>(a.keys * a.head_dim));
    for (std::int64_t i = 0; i < a.queries; ++i) {
      float along = 0;  // Σ p ∘ dp
      for (std::int64_t c = 0; c < a.head_dim; ++c) along += dy.at(i, c) * y.at(i, c);
      for (std::int64_t j = 0; j < a.keys; ++j) {
        const float p = std::exp(scores[static_cast<std::size_t>(i * a.keys + j)] - log_sums[i]);
        float dp = 0;
        for (std::int64_t c = 0; c < a.head_dim; ++c) dp += dy.at(i, c) * v.at(j, c);
        const float ds = a.scale * p * (dp - along);
        for (std::int64_t c = 0; c < a.head_dim; ++c) {
          of_queries[static_cast<std::size_t>(i * a.head_dim + c)] += ds * k.at(j, c);
          of_keys[static_cast<std::size_t>(j * a.head_dim + c)] += ds * q.at(i, c);
          of_values[static_cast<std::size_t>(j * a.head_dim + c)] += p * dy.at(i, c);
        }
      }
    }
    const auto write = [&](const HeadView& rows, std::int64_t count, const std::vector<float>& values) {
      for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t c = 0; c < a.head_dim; ++c)
          rows.set(i, c, values[static_cast<std::size_t>(i * a.head_dim + c)]);
    };
    write(dq, a.queries, of_queries);
    if (head % group != group - 1) continue;
    write(dk, a.keys, of_keys);
    write(dv, a.keys, of_values);
  }
}

const RegisterKernel state{add_cuda_libraries, DeviceKind::cuda, [](std::vector<CudaLibrary>& libraries) {
                             libraries.push_back({.name = "products, convolutions, attention", .version = "host"});
                           }};

}  // namespace

bool has_plan(int, const Convolution&) { return true; }
bool has_plan(int, const DenseAttention&) { return true; }

void convolve(Stream stream, int, const Convolution& what, const void* first, const void* second, void* result, void*) {
  stand_in::enqueue(stream, [=] { convolve_now(what, first, second, result); });
}

void attend(Stream stream, int, const DenseAttention& what, const DenseAttentionPointers& pointers, void*) {
  stand_in::enqueue(stream, [=] { attend_now(what, pointers); });
}

}  // namespace lacuna::cuda
