// Attention over edges on the CPU. A node's entries are taken in their order, by one thread.
#include "core/dtype.h"
#include "core/math.h"
#include "ops/graphs/edge_parts.h"
#include "ops/graphs/graph_attention_kernels.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace lacuna {
namespace {

constexpr std::int64_t entries_ahead = 3;  // rows are far apart in memory
constexpr std::int64_t sums_at_once = 64;  // parts of a sum over the nodes

template <class T>
void prefetch(const T* row, std::int64_t width) {
  const auto* const bytes = reinterpret_cast<const char*>(row);
  for (std::int64_t b = 0; b < width * static_cast<std::int64_t>(sizeof(T)); b += 64) __builtin_prefetch(bytes + b);
}

/// Calls f(n, row of n) for the entries of a node, whose other ends are n: rows of `width` elements.
template <class T, class F>
void for_entries(const Neighbours& of, std::int64_t node, const T* rows, std::int64_t width, const F& f) {
  const auto* const starts = of.starts.data<const std::int64_t>();
  const auto* const ends = of.nodes.data<const std::int32_t>();
  const auto row = [&](std::int64_t e) { return rows + std::int64_t{ends[e]} * width; };
  for (std::int64_t e = starts[node]; e < starts[node + 1]; ++e) {
    if (e + entries_ahead < starts[node + 1]) prefetch(row(e + entries_ahead), width);
    f(std::int64_t{ends[e]}, row(e));
  }
}

/// a · b.
template <class A, class B>
auto dot(const A* a, const B* b, std::int64_t count) {
  Compute<A> sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < count; ++c) sum += to_compute(a[c]) * to_compute(b[c]);
  return sum;
}
/// sums += factor · row.
template <class T>
void add(const T* row, Compute<T> factor, std::int64_t count, Compute<T>* sums) {
#pragma GCC ivdep
  for (std::int64_t c = 0; c < count; ++c) sums[c] += factor * to_compute(row[c]);
}

/// Scores and weights of edges, from those of their nodes.
template <class C>
struct Edges {
  const EdgeAttention& how;
  const C *targets, *sources;
  std::int64_t nodes, heads = how.heads, draws = (how.heads + 3) / 4;  // draws: of four, an edge
  C slope = static_cast<C>(how.slope);
  RandomStream stream = how.stream.now();

  Edges(const EdgeAttention& given, const NodeScores& scores)
      : how(given),
        targets(scores.targets.data<const C>()),
        sources(scores.sources.data<const C>()),
        nodes(scores.targets.rows()) {}

  C raw(std::int64_t target, std::int64_t source, std::int64_t head) const {
    return targets[target * heads + head] + sources[source * heads + head];
  }
  C slope_at(C raw_score) const { return raw_score > 0 ? C(1) : slope; }
  C score(C raw_score) const { return raw_score * slope_at(raw_score); }

  /// factors[k]: what dropout multiplies the weight of head k by.
  void draw(std::int64_t target, std::int64_t source, C* factors) const {
    if (how.dropped_below == 0) return std::fill(factors, factors + heads, C(1));
    const auto first =
        (static_cast<std::uint64_t>(target) * static_cast<std::uint64_t>(nodes) + static_cast<std::uint64_t>(source)) *
        static_cast<std::uint64_t>(draws);
    for (std::int64_t k = 0; k < heads; k += 4) {
      const std::array<std::uint32_t, 4> four = stream.draw(first + static_cast<std::uint64_t>(k / 4));
      for (std::int64_t j = 0; j < std::min<std::int64_t>(4, heads - k); ++j)
        factors[k + j] = four[static_cast<std::size_t>(j)] < how.dropped_below ? C(0) : static_cast<C>(how.kept_scale);
    }
  }
};

const RegisterKernel cpu_scores{
    node_scores, DeviceKind::cpu, [](std::int64_t heads, const Tensor& h, const Tensor& vector, const Tensor& scores) {
      const std::int64_t width = h.shape().back(), size = width / heads;
      with_float_type(h.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        parallel_for(h.rows(), 16384 / width, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t v = begin; v < end; ++v)
            for (std::int64_t k = 0; k < heads; ++k)
              scores.data<C>()[v * heads + k] =
                  dot(h.data<const T>() + v * width + k * size, vector.data<const C>() + k * size, size);
        });
      });
    }};

const RegisterKernel cpu_forward{
    graph_attention_forward, DeviceKind::cpu,
    [](const EdgeAttention& how, const Neighbours& incoming, const NodeScores& scores, const Tensor& h,
       const Tensor& y) {
      const std::int64_t heads = how.heads, width = h.shape().back(), size = width / heads;
      const auto* const starts = incoming.starts.data<const std::int64_t>();
      const auto* const nodes = incoming.nodes.data<const std::int32_t>();
      with_float_type(h.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        const Edges<C> edges(how, scores);
        const T* const from = h.data<const T>();
        T* const to = y.data<T>();
        C* const normalizers = scores.normalizers.data<C>();
        for_nodes_by_edges(starts, h.rows(), width, [&](std::int64_t begin, std::int64_t end) {
          std::vector<C> sums(static_cast<std::size_t>(width)), factors(static_cast<std::size_t>(heads));
          for (std::int64_t t = begin; t < end; ++t) {
            for (std::int64_t k = 0; k < heads; ++k) {
              C largest = -std::numeric_limits<C>::infinity(), sum = 0;
              for (std::int64_t e = starts[t]; e < starts[t + 1]; ++e)
                largest = std::max(largest, edges.score(edges.raw(t, nodes[e], k)));
              for (std::int64_t e = starts[t]; e < starts[t + 1]; ++e)
                sum += math::exp(edges.score(edges.raw(t, nodes[e], k)) - largest);
              normalizers[t * heads + k] = starts[t] < starts[t + 1] ? largest + std::log(sum) : C(0);
            }
            std::ranges::fill(sums, C(0));
            for_entries(incoming, t, from, width, [&](std::int64_t source, const T* row) {
              edges.draw(t, source, factors.data());
              for (std::int64_t k = 0; k < heads; ++k) {
                const C weight = math::exp(edges.score(edges.raw(t, source, k)) - normalizers[t * heads + k]);
                add(row + k * size, weight * factors[static_cast<std::size_t>(k)], size, sums.data() + k * size);
              }
            });
            for (std::int64_t c = 0; c < width; ++c)
              to[t * width + c] = static_cast<T>(sums[static_cast<std::size_t>(c)]);
          }
        });
      });
    }};

const RegisterKernel cpu_by_target{
    graph_attention_by_target, DeviceKind::cpu,
    [](const EdgeAttention& how, const Neighbours& incoming, const NodeScores& scores, const Tensor& h,
       const Tensor& dy, const Tensor& dtargets, const Tensor& means) {
      const std::int64_t heads = how.heads, width = h.shape().back(), size = width / heads;
      const auto* const starts = incoming.starts.data<const std::int64_t>();
      const auto* const nodes = incoming.nodes.data<const std::int32_t>();
      with_float_type(h.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        const Edges<C> edges(how, scores);
        const T *const from = h.data<const T>(), *const gradients = dy.data<const T>();
        const C* const normalizers = scores.normalizers.data<const C>();
        for_nodes_by_edges(starts, h.rows(), width, [&](std::int64_t begin, std::int64_t end) {
          // Σ a, Σ a·da, Σ a·da·s and Σ a·s over the edges: da is the gradient of the weight a, s the slope at the
          // score less that of the first edge. The gradient of the node's score is Σ a·s·(da - mean), whatever is taken
          // from all slopes: where they are equal it is 0, as it should be. In double, since these sums cancel.
          struct Sums {
            double weights, mean, sloped, slopes;
          };
          std::vector<Sums> sums(static_cast<std::size_t>(heads));
          std::vector<C> factors(static_cast<std::size_t>(heads));
          for (std::int64_t t = begin; t < end; ++t) {
            std::ranges::fill(sums, Sums{});
            const T* const gradient = gradients + t * width;
            for_entries(incoming, t, from, width, [&](std::int64_t source, const T* row) {
              edges.draw(t, source, factors.data());
              for (std::int64_t k = 0; k < heads; ++k) {
                const C raw = edges.raw(t, source, k);
                const C weight = math::exp(edges.score(raw) - normalizers[t * heads + k]);
                const C product =
                    weight * factors[static_cast<std::size_t>(k)] * dot(row + k * size, gradient + k * size, size);
                Sums& sum = sums[static_cast<std::size_t>(k)];
                sum.weights += static_cast<double>(weight);
                sum.mean += static_cast<double>(product);
                const C slope = edges.slope_at(raw) - edges.slope_at(edges.raw(t, nodes[starts[t]], k));
                sum.sloped += static_cast<double>(product * slope);
                sum.slopes += static_cast<double>(weight * slope);
              }
            });
            for (std::int64_t k = 0; k < heads; ++k) {
              const Sums& sum = sums[static_cast<std::size_t>(k)];
              const double mean = sum.weights > 0 ? sum.mean / sum.weights : 0;
              means.data<C>()[t * heads + k] = static_cast<C>(mean);
              dtargets.data<C>()[t * heads + k] = static_cast<C>(sum.sloped - mean * sum.slopes);
            }
          }
        });
      });
    }};

const RegisterKernel cpu_by_source{
    graph_attention_by_source, DeviceKind::cpu,
    [](const EdgeAttention& how, const Neighbours& outgoing, const NodeScores& scores, const Tensor& h,
       const Tensor& dy, const Tensor& means, const Tensor& dsources, const Tensor& dh) {
      const std::int64_t heads = how.heads, width = h.shape().back(), size = width / heads;
      const auto* const starts = outgoing.starts.data<const std::int64_t>();
      with_float_type(h.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        const Edges<C> edges(how, scores);
        const T *const from = h.data<const T>(), *const gradients = dy.data<const T>();
        const C *const normalizers = scores.normalizers.data<const C>(), *const mean = means.data<const C>();
        T* const to = dh.defined() ? dh.data<T>() : nullptr;
        for_nodes_by_edges(starts, h.rows(), width, [&](std::int64_t begin, std::int64_t end) {
          std::vector<C> sums(static_cast<std::size_t>(width)), factors(static_cast<std::size_t>(heads)),
              of_heads(static_cast<std::size_t>(heads));
          for (std::int64_t s = begin; s < end; ++s) {
            std::ranges::fill(sums, C(0));
            std::ranges::fill(of_heads, C(0));
            for_entries(outgoing, s, gradients, width, [&](std::int64_t t, const T* row) {
              edges.draw(t, s, factors.data());
              for (std::int64_t k = 0; k < heads; ++k) {
                const T* const gradient = row + k * size;
                const C raw = edges.raw(t, s, k);
                const C weight = math::exp(edges.score(raw) - normalizers[t * heads + k]);
                const C factor = factors[static_cast<std::size_t>(k)];
                const C product = factor * dot(from + s * width + k * size, gradient, size);
                of_heads[static_cast<std::size_t>(k)] += weight * (product - mean[t * heads + k]) * edges.slope_at(raw);
                if (to != nullptr) add(gradient, weight * factor, size, sums.data() + k * size);
              }
            });
            for (std::int64_t k = 0; k < heads; ++k)
              dsources.data<C>()[s * heads + k] = of_heads[static_cast<std::size_t>(k)];
            for (std::int64_t c = 0; c < width && to != nullptr; ++c)
              to[s * width + c] = static_cast<T>(sums[static_cast<std::size_t>(c)]);
          }
        });
      });
    }};

const RegisterKernel cpu_input_gradient{
    node_scores_input_gradient, DeviceKind::cpu,
    [](std::int64_t heads, const Tensor& dscores, const Tensor& vector, const Tensor& dh) {
      const std::int64_t width = dh.shape().back(), size = width / heads;
      with_float_type(dh.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        parallel_for(dh.rows(), 16384 / width, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t v = begin; v < end; ++v)
            for (std::int64_t k = 0; k < heads; ++k) {
              const C factor = dscores.data<const C>()[v * heads + k];
              const C* const one = vector.data<const C>() + k * size;
              T* const row = dh.data<T>() + v * width + k * size;
#pragma GCC ivdep
              for (std::int64_t c = 0; c < size; ++c) row[c] = static_cast<T>(to_compute(row[c]) + factor * one[c]);
            }
        });
      });
    }};

const RegisterKernel cpu_vector_gradient{
    node_scores_vector_gradient, DeviceKind::cpu,
    [](std::int64_t heads, const Tensor& dscores, const Tensor& h, const Tensor& dvector) {
      const std::int64_t width = h.shape().back(), size = width / heads;
      with_float_type(h.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        std::vector<C> parts(static_cast<std::size_t>(sums_at_once * width));  // [parts, width]
        parallel_tasks(sums_at_once, [&](std::int64_t i, int) {
          C* const sums = parts.data() + i * width;
          const Range range = part(h.rows(), i, sums_at_once);
          for (std::int64_t v = range.begin; v < range.end; ++v)
            for (std::int64_t k = 0; k < heads; ++k)
              add(h.data<const T>() + v * width + k * size, dscores.data<const C>()[v * heads + k], size,
                  sums + k * size);
        });
        C* const out = dvector.data<C>();
        std::fill(out, out + width, C(0));
        for (std::int64_t i = 0; i < sums_at_once; ++i)
          for (std::int64_t c = 0; c < width; ++c) out[c] += parts[static_cast<std::size_t>(i * width + c)];
      });
    }};

}  // namespace
}  // namespace lacuna
