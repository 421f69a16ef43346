// Sums over neighbours on the CPU. A node's entries are added in their order, several columns at a time.
#include "core/dtype.h"
#include "ops/graphs/edge_parts.h"
#include "ops/graphs/graph_product_kernels.h"

#include <algorithm>
#include <cstring>

namespace lacuna {
namespace {

constexpr std::int64_t tile = 1024;        // columns whose sums stay in the first cache
constexpr std::int64_t entries_ahead = 6;  // rows are far apart in memory

template <class T>
void prefetch(const T* row, std::int64_t width) {
  const auto* const bytes = reinterpret_cast<const char*>(row);
  const auto size = std::min<std::int64_t>(width * static_cast<std::int64_t>(sizeof(T)), 1024);
  for (std::int64_t b = 0; b < size; b += 64) __builtin_prefetch(bytes + b);
}

/// sums[c] += Σ factor(e) · x[nodes[e]][c], for c in [0, count). x: the first of these columns, rows of `width`.
template <class T, class F>
void add_rows(const T* x, std::int64_t width, const std::int32_t* nodes, std::int64_t begin, std::int64_t end,
              const F& factor, std::int64_t count, Compute<T>* sums) {
  const auto row = [&](std::int64_t e) { return x + std::int64_t{nodes[e]} * width; };
  std::int64_t e = begin;
  for (; e + 1 < end; e += 2) {
    for (std::int64_t i = e + entries_ahead; i < std::min(e + entries_ahead + 2, end); ++i) prefetch(row(i), count);
    const T *const a = row(e), *const b = row(e + 1);
    const Compute<T> f = factor(e), g = factor(e + 1);
#pragma GCC ivdep
    for (std::int64_t c = 0; c < count; ++c) sums[c] = (sums[c] + f * to_compute(a[c])) + g * to_compute(b[c]);
  }
  if (e < end) {
    const T* const a = row(e);
    const Compute<T> f = factor(e);
#pragma GCC ivdep
    for (std::int64_t c = 0; c < count; ++c) sums[c] += f * to_compute(a[c]);
  }
}

const RegisterKernel cpu_product{
    graph_product, DeviceKind::cpu,
    [](const Neighbours& of, const Tensor& scale, const Tensor& values, const Tensor& places, const Tensor& x,
       const Tensor& y) {
      const auto* const starts = of.starts.data<const std::int64_t>();
      const auto* const nodes = of.nodes.data<const std::int32_t>();
      const float* const scales = scale.defined() ? scale.data<const float>() : nullptr;
      const auto* const place = places.defined() ? places.data<const std::int32_t>() : nullptr;
      const std::int64_t width = y.shape().back();
      with_float_type(y.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        const T* const from = x.data<const T>();
        T* const to = y.data<T>();
        const auto run = [&]<class V>(const V* value) {
          const auto factor = [=](std::int64_t e) {
            C f = scales != nullptr ? static_cast<C>(scales[nodes[e]]) : C(1);
            if (value != nullptr) f *= static_cast<C>(value[place != nullptr ? place[e] : e]);
            return f;
          };
          for_nodes_by_edges(starts, y.rows(), width, [&](std::int64_t begin, std::int64_t end) {
            C sums[tile];
            for (std::int64_t v = begin; v < end; ++v)
              for (std::int64_t first = 0; first < width; first += tile) {
                const std::int64_t count = std::min(tile, width - first);
                std::fill(sums, sums + count, C(0));
                add_rows(from + first, width, nodes, starts[v], starts[v + 1], factor, count, sums);
                const C s = scales != nullptr ? static_cast<C>(scales[v]) : C(1);
                T* const row = to + v * width + first;
#pragma GCC ivdep
                for (std::int64_t c = 0; c < count; ++c) row[c] = static_cast<T>(s * sums[c]);
              }
          });
        };
        if (values.defined() && values.dtype() == DType::f64)
          run(values.data<const double>());
        else
          run(values.defined() ? values.data<const float>() : nullptr);
      });
    }};

const RegisterKernel cpu_value_gradient{
    graph_value_gradient, DeviceKind::cpu,
    [](const Neighbours& of, const Tensor& scale, const Tensor& x, const Tensor& dy, const Tensor& dvalues) {
      const auto* const starts = of.starts.data<const std::int64_t>();
      const auto* const nodes = of.nodes.data<const std::int32_t>();
      const float* const scales = scale.defined() ? scale.data<const float>() : nullptr;
      const std::int64_t width = dy.shape().back();
      with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        const T *const rows = x.data<const T>(), *const gradients = dy.data<const T>();
        auto* const out = dvalues.data<C>();
        for_nodes_by_edges(starts, dy.rows(), width, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t v = begin; v < end; ++v)
            for (std::int64_t e = starts[v]; e < starts[v + 1]; ++e) {
              if (e + entries_ahead < starts[v + 1])
                prefetch(rows + std::int64_t{nodes[e + entries_ahead]} * width, width);
              const T *const a = gradients + v * width, *const b = rows + std::int64_t{nodes[e]} * width;
              C sum = 0;
#pragma omp simd reduction(+ : sum)
              for (std::int64_t c = 0; c < width; ++c) sum += to_compute(a[c]) * to_compute(b[c]);
              if (scales != nullptr) sum *= static_cast<C>(scales[v]) * static_cast<C>(scales[nodes[e]]);
              out[e] = sum;
            }
        });
      });
    }};

const RegisterKernel cpu_segment_sum{
    segment_sum, DeviceKind::cpu, [](const Neighbours& of, const Tensor& x, const Tensor& y) {
      const auto* const starts = of.starts.data<const std::int64_t>();
      const std::int64_t width = y.shape().back();
      with_float_type(y.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        const T* const from = x.data<const T>();
        T* const to = y.data<T>();
        for_nodes_by_edges(starts, y.rows(), width, [&](std::int64_t begin, std::int64_t end) {
          C sums[tile];
          for (std::int64_t v = begin; v < end; ++v)
            for (std::int64_t first = 0; first < width; first += tile) {
              const std::int64_t count = std::min(tile, width - first);
              std::fill(sums, sums + count, C(0));
              for (std::int64_t e = starts[v]; e < starts[v + 1]; ++e) {
                const T* const row = from + e * width + first;
#pragma GCC ivdep
                for (std::int64_t c = 0; c < count; ++c) sums[c] += to_compute(row[c]);
              }
              for (std::int64_t c = 0; c < count; ++c) to[v * width + first + c] = static_cast<T>(sums[c]);
            }
        });
      });
    }};

const RegisterKernel cpu_segment_spread{
    segment_spread, DeviceKind::cpu, [](const Neighbours& of, const Tensor& y, const Tensor& x) {
      const auto* const starts = of.starts.data<const std::int64_t>();
      const std::int64_t row = y.shape().back() * size_of(y.dtype());
      const std::byte* const from = y.data<const std::byte>();
      std::byte* const to = x.raw();
      for_nodes_by_edges(starts, y.rows(), row, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t v = begin; v < end; ++v)
          for (std::int64_t e = starts[v]; e < starts[v + 1]; ++e)
            std::memcpy(to + e * row, from + v * row, static_cast<std::size_t>(row));
      });
    }};

}  // namespace
}  // namespace lacuna
