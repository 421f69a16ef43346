#include "ops/attention.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "core/parallel.h"
#include "ops/kernels/tile.h"

namespace lacuna {
namespace {

const RegisterOp<Attention> attention;

using tile::lanes;
using tile::Left;
using tile::Vector;

struct Geometry {
  std::int64_t images, length, queries, heads, head_dim;  // B, L, n, H, d
  double scale;

  Geometry(const Attention& op, const Shape& qkv)
      : images(qkv[0]),
        length(qkv[1]),
        queries(op.queries == 0 ? length : op.queries),
        heads(op.heads),
        head_dim(qkv[2] / (3 * op.heads)),
        scale(op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(head_dim))) {}

  std::int64_t width() const { return heads * head_dim; }  // D
  /// First element of part 0 (q), 1 (k) or 2 (v) of a head in qkv or in its gradient. Heads are numbered through all
  /// images.
  std::int64_t offset(std::int64_t head, std::int64_t part) const {
    return head / heads * length * 3 * width() + part * width() + head % heads * head_dim;
  }
  /// The same in the output.
  std::int64_t output_offset(std::int64_t head) const {
    return head / heads * queries * width() + head % heads * head_dim;
  }
};

/// Sizes of what one thread works in: all of a head's keys, a block of its queries.
template <class C>
struct Blocks {
  std::int64_t stride;   // elements from one query's scores to the next's
  std::int64_t queries;  // of a block

  explicit Blocks(const Geometry& g) : stride(tile::padded<C>(g.length)) {
    constexpr std::int64_t cache = 96 * 1024;  // bytes of scores: a part of the second level
    if (stride * static_cast<std::int64_t>(sizeof(C)) % 1024 == 0) stride += lanes<C>;  // spread over the cache's sets
    const std::int64_t fitting = cache / (stride * static_cast<std::int64_t>(sizeof(C))) / tile::rows * tile::rows;
    queries = std::min(tile::round_up(g.queries, tile::rows), std::max<std::int64_t>(fitting, 4 * tile::rows));
  }
  std::int64_t scores() const { return queries * stride + tile::rows; }  // a transposed left factor reads past its end
};

/// Hands out one thread's share of a workspace, piece by piece, each on a cache line of its own.
template <class C>
class Arena {
 public:
  explicit Arena(C* memory) : next_(memory) {}
  C* take(std::int64_t count) {
    C* const piece = next_;
    next_ += rounded(count);
    return piece;
  }
  static std::int64_t rounded(std::int64_t count) {
    return tile::round_up(count, 64 / static_cast<std::int64_t>(sizeof(C)));
  }

 private:
  C* next_;
};

/// Softmax over `length` of the scores in each row, which are logarithms to base 2, in place and but for the division:
/// row i is left to be multiplied by inverse[i]. As many rows at a time as a vector has lanes: what is one number a row
/// is computed for all of them at once.
template <class C>
void softmax_rows(C* scores, std::int64_t stride, std::int64_t rows, std::int64_t length, C* inverse) {
  const std::int64_t whole = length / lanes<C> * lanes<C>;
  for (std::int64_t first = 0; first < rows; first += lanes<C>) {
    const std::int64_t count = std::min(lanes<C>, rows - first);
    Vector<C> greatest[lanes<C>] = {}, sums[lanes<C>] = {};
    for (std::int64_t r = 0; r < count; ++r) {
      C* const row = scores + (first + r) * stride;
      for (std::int64_t j = length; j < tile::padded<C>(length); ++j) row[j] = -std::numeric_limits<C>::infinity();
      Vector<C> top = tile::load(row);
      for (std::int64_t j = lanes<C>; j < length; j += lanes<C>) {
        const Vector<C> v = tile::load(row + j);
        top = v > top ? v : top;
      }
      greatest[r] = top;
    }
    tile::transpose<C>(greatest);
    Vector<C> tops = greatest[0];
    for (const Vector<C>& v : greatest) tops = v > tops ? v : tops;

    for (std::int64_t r = 0; r < count; ++r) {
      C* const row = scores + (first + r) * stride;
      const C top = tops[r];
      Vector<C> sum{};
      for (std::int64_t j = 0; j < whole; j += lanes<C>) {
        const Vector<C> p = tile::exp2(tile::load(row + j) - top);
        tile::store(row + j, p);
        sum += p;
      }
      if (whole < length) {
        const Vector<C> p = tile::exp2(tile::load(row + whole) - top);
        tile::store(row + whole, p);
        sum += tile::load_as(row + whole, length - whole);
      }
      sums[r] = sum;
    }
    tile::transpose<C>(sums);
    Vector<C> totals{};
    for (const Vector<C>& v : sums) totals += v;
    const Vector<C> inverses = C(1) / totals;
    for (std::int64_t r = 0; r < count; ++r) inverse[first + r] = inverses[r];
  }
}

/// Asks for the lines that hold an element of a query and the same ones of its key and value, `width` apart.
template <class T>
inline void fetch_qkv(const T* element, std::int64_t width) {
  __builtin_prefetch(element);
  __builtin_prefetch(element + width);
  __builtin_prefetch(element + 2 * width);
}

template <class T>
class Forward {
  using C = Compute<T>;

 public:
  explicit Forward(const Geometry& g) : g_(g), blocks_(g) {}

  std::int64_t workspace() const {
    const auto rounded = Arena<C>::rounded;
    return rounded(keys()) + rounded(values()) + rounded(blocks_.scores()) + rounded(blocks_.queries) +
           rounded(left_copy());
  }

  /// One head's output. Meanwhile the rows of `next`, the head to come, are fetched into the cache.
  void head(const T* qkv, T* out, std::int64_t head, std::int64_t next, C* memory) const {
    Arena<C> arena(memory);
    C* const k = arena.take(keys());                 // kᵀ in panels, [d, L]
    C* const v = arena.take(values());               // panels, [L, d]
    C* const scores = arena.take(blocks_.scores());  // [block, stride]
    C* const inverse = arena.take(blocks_.queries);
    C* const q_copy = arena.take(left_copy());
    const std::int64_t stride = 3 * g_.width();
    const auto factor = static_cast<C>(g_.scale * std::numbers::log2e);
    tile::pack_transposed(qkv + g_.offset(head, 1), stride, g_.head_dim, g_.length, factor, k);
    tile::pack(qkv + g_.offset(head, 2), stride, g_.length, g_.head_dim, v);
    const T* const q = qkv + g_.offset(head, 0);
    const T* const next_qkv = qkv + g_.offset(next, 0);
    T* const o = out + g_.output_offset(head);
    for (std::int64_t begin = 0; begin < g_.queries; begin += blocks_.queries) {
      const std::int64_t count = std::min(blocks_.queries, g_.queries - begin);
      tile::product(tile::left_rows(q + begin * stride, stride, count, g_.head_dim, q_copy), count, g_.head_dim, k,
                    g_.length, [&](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
                      tile::store(scores + i * blocks_.stride + j, sum);
                    });
      softmax_rows(scores, blocks_.stride, count, g_.length, inverse);
      tile::product(Left<C, false>{scores, blocks_.stride}, count, g_.length, v, g_.head_dim,
                    [&](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
                      tile::store_as(o + (begin + i) * g_.width() + j, sum * inverse[i], g_.head_dim - j);
                      fetch_qkv(next_qkv + (begin + i) * stride + j, g_.width());
                    });
    }
  }

 private:
  std::int64_t keys() const { return tile::padded<C>(g_.length) * g_.head_dim; }
  std::int64_t values() const { return g_.length * tile::padded<C>(g_.head_dim); }
  std::int64_t left_copy() const { return is_half<T> ? blocks_.queries * g_.head_dim : 0; }

  Geometry g_;
  Blocks<C> blocks_;
};

template <class T>
class Backward {
  using C = Compute<T>;

 public:
  explicit Backward(const Geometry& g) : g_(g), blocks_(g) {}

  std::int64_t workspace() const {
    const auto rounded = Arena<C>::rounded;
    return 2 * rounded(transposed()) + rounded(rows_of(g_.length)) + 2 * rounded(rows_of(blocks_.queries)) +
           2 * rounded(sums()) + 2 * rounded(blocks_.scores()) + rounded(blocks_.queries) + rounded(left_copy());
  }

  /// Gradients of one head's q, k and v, in their places in `dqkv`.
  /// Meanwhile the rows of `next`, the head to come, are fetched into the cache.
  void head(const T* qkv, const T* dout, T* dqkv, std::int64_t head, std::int64_t next, C* memory) const {
    Arena<C> arena(memory);
    C* const k_transposed = arena.take(transposed());           // scaled; panels, [d, L]
    C* const v_transposed = arena.take(transposed());           // panels, [d, L]
    C* const k_rows = arena.take(rows_of(g_.length));           // panels, [L, d]
    C* const q_rows = arena.take(rows_of(blocks_.queries));     // panels, [block, d]
    C* const dout_rows = arena.take(rows_of(blocks_.queries));  // panels, [block, d]
    C* const dk_sums = arena.take(sums());                      // [L, d] where there are several blocks
    C* const dv_sums = arena.take(sums());
    C* const scores = arena.take(blocks_.scores());    // [block, stride]: probabilities, then the scores' gradients
    C* const weighted = arena.take(blocks_.scores());  // [block, stride]: probabilities times their gradients
    C* const inverse = arena.take(blocks_.queries);    // of the denominators
    C* const copy = arena.take(left_copy());

    const std::int64_t stride = 3 * g_.width(), d = g_.head_dim, block_stride = blocks_.stride;
    const T* const q = qkv + g_.offset(head, 0);
    const T* const k = qkv + g_.offset(head, 1);
    const T* const v = qkv + g_.offset(head, 2);
    const T* const g = dout + g_.output_offset(head);
    const T* const next_qkv = qkv + g_.offset(next, 0);
    const std::int64_t next_out = g_.output_offset(next);
    const auto scale = static_cast<C>(g_.scale);
    tile::pack_transposed(k, stride, d, g_.length, static_cast<C>(g_.scale * std::numbers::log2e), k_transposed);
    tile::pack_transposed(v, stride, d, g_.length, C(1), v_transposed);
    tile::pack(k, stride, g_.length, d, k_rows);

    for (std::int64_t begin = 0; begin < g_.queries; begin += blocks_.queries) {
      const std::int64_t count = std::min(blocks_.queries, g_.queries - begin);
      const T* const q_block = q + begin * stride;
      const T* const g_block = g + begin * g_.width();
      tile::pack(q_block, stride, count, d, q_rows);
      tile::pack(g_block, g_.width(), count, d, dout_rows);
      // Sums over the queries of all blocks: written out with the last.
      const auto gather = [&](T* to, C* sums, C factor) {
        return [=, this, first = begin == 0, last = begin + count == g_.queries](std::int64_t i, std::int64_t j,
                                                                                 const Vector<C>& sum) {
          C* const partial = sums + i * tile::padded<C>(g_.head_dim) + j;
          const Vector<C> all = first ? sum : sum + tile::load(partial);
          if (last)
            tile::store_as(to + i * 3 * g_.width() + j, all * factor, g_.head_dim - j);
          else
            tile::store(partial, all);
        };
      };
      const Left<C, true> transposed_scores{scores, block_stride};
      // p = softmax(scale · q·kᵀ), from its own sums: also where q and k are approximate each row sums to one
      tile::product(tile::left_rows(q_block, stride, count, d, copy), count, d, k_transposed, g_.length,
                    [&](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
                      tile::store(scores + i * block_stride + j, sum);
                    });
      softmax_rows(scores, block_stride, count, g_.length, inverse);
      // ds = p ∘ (dp − Σ p ∘ dp), dp = do·vᵀ
      tile::product(tile::left_rows(g_block, g_.width(), count, d, copy), count, d, v_transposed, g_.length,
                    [&](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
                      const std::int64_t place = i * block_stride + j;
                      const Vector<C> p = tile::load(scores + place) * inverse[i];
                      tile::store(scores + place, p);
                      tile::store(weighted + place, p * sum);
                    });
      // dv = pᵀ·do
      tile::product(transposed_scores, g_.length, count, dout_rows, d,
                    gather(dqkv + g_.offset(head, 2), dv_sums, C(1)));
      for (std::int64_t i = 0; i < count; ++i) {
        C* const p = scores + i * block_stride;          // [L]
        const C* const w = weighted + i * block_stride;  // [L]
        const C total = sum(w, g_.length);
#pragma omp simd
        for (std::int64_t j = 0; j < g_.length; ++j) p[j] = w[j] - p[j] * total;
      }
      // dq = scale · ds·k
      T* const dq = dqkv + g_.offset(head, 0) + begin * stride;
      tile::product(Left<C, false>{scores, block_stride}, count, g_.length, k_rows, d,
                    [&](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
                      tile::store_as(dq + i * stride + j, sum * scale, d - j);
                      const std::int64_t token = begin + i;
                      fetch_qkv(next_qkv + token * stride + j, g_.width());
                      __builtin_prefetch(dout + next_out + token * g_.width() + j);
                    });
      // dk = scale · dsᵀ·q
      tile::product(transposed_scores, g_.length, count, q_rows, d, gather(dqkv + g_.offset(head, 1), dk_sums, scale));
    }
    for (std::int64_t i = g_.queries; i < g_.length; ++i)  // tokens that did not ask
      std::fill_n(dqkv + g_.offset(head, 0) + i * stride, d, T{});
  }

 private:
  static C sum(const C* numbers, std::int64_t n) {
    C total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = 0; i < n; ++i) total += numbers[i];
    return total;
  }
  std::int64_t transposed() const { return tile::padded<C>(g_.length) * g_.head_dim; }
  std::int64_t rows_of(std::int64_t rows) const { return rows * tile::padded<C>(g_.head_dim); }
  std::int64_t sums() const { return blocks_.queries < g_.queries ? rows_of(g_.length) : 0; }
  std::int64_t left_copy() const { return is_half<T> ? blocks_.queries * g_.head_dim : 0; }

  Geometry g_;
  Blocks<C> blocks_;
};

/// One thread's workspace a row, [threads, count].
template <class T>
Tensor workspace_for(std::int64_t count, Device device) {
  return Tensor::empty({threads(), Arena<Compute<T>>::rounded(count)}, dtype_of<Compute<T>>(), device,
                       Purpose::workspace);
}

}  // namespace

std::int64_t Attention::macs(std::span<const Shape> inputs, const Shape& y) const {
  // q·k and the sums over v, each over all tokens.
  return 2 * y.count() * inputs[qkv][1];
}

Tensor Attention::forward(std::span<const Tensor> inputs, std::vector<Tensor>&) const {
  const Tensor& in = inputs[qkv];
  const Shape& shape = in.shape();
  expect(shape.rank() == 3 && heads > 0 && shape[2] % (3 * heads) == 0 && 0 <= queries && queries <= shape[1],
         "attention: expected qkv [B, L, 3 · {} heads · d] and at most L queries, got {} and {} queries", heads, shape,
         queries);
  const Geometry g(*this, shape);
  Tensor out = Tensor::empty({g.images, g.queries, g.width()}, in.dtype(), in.device());
  with_float_type(in.dtype(), [&]<class T>(Type<T>) {
    using C = Compute<T>;
    const Forward<T> kernel(g);
    const Tensor workspace = workspace_for<T>(kernel.workspace(), in.device());
    launch(in.device(), [&] {
      const std::int64_t tasks = g.images * g.heads;
      parallel_tasks(tasks, [&](std::int64_t task, std::int64_t thread) {
        kernel.head(in.data<T>(), out.data<T>(), task, std::min(task + 1, tasks - 1),
                    workspace.data<C>() + thread * workspace.shape()[1]);
      });
    });
  });
  return out;
}

void Attention::backward(Tensor dy, const Saved<Attention>& saved, Grads& grads) const {
  const Shape shape = saved.shape<input(qkv)>();
  const Geometry g(*this, shape);
  const Tensor dqkv = Tensor::empty(shape, dy.dtype(), dy.device());
  with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
    using C = Compute<T>;
    const Backward<T> kernel(g);
    const Tensor workspace = workspace_for<T>(kernel.workspace(), dy.device());
    // As many images at a time as lie there decoded, but work for every thread; where they come in parts, parts that
    // give each thread as many heads, if so many images are decoded.
    const std::int64_t decoded = saved.block_rows<input(qkv)>() / g.length;
    const std::int64_t even = threads() / std::gcd<std::int64_t>(threads(), g.heads);  // images
    const std::int64_t run = decoded < g.images && decoded >= even
                                 ? decoded / even * even
                                 : std::max(decoded, (threads() + g.heads - 1) / g.heads);
    for (std::int64_t first = 0; first < g.images; first += run) {
      const std::int64_t images = std::min(run, g.images - first), end = first + images;
      const std::int64_t begin_row = first * g.queries, end_row = end * g.queries;
      const Tensor in = saved.rows<input(qkv)>(first * g.length, end * g.length);
      const Tensor dout = dy.row_range(begin_row, end_row), d_in = dqkv.row_range(first * g.length, end * g.length);
      launch(dy.device(), [&] {
        const std::int64_t tasks = images * g.heads;
        parallel_tasks(tasks, [&](std::int64_t task, std::int64_t thread) {
          kernel.head(in.data<T>(), dout.data<T>(), d_in.data<T>(), task, std::min(task + 1, tasks - 1),
                      workspace.data<C>() + thread * workspace.shape()[1]);
        });
      });
    }
  });
  grads[qkv] = dqkv;
}

}  // namespace lacuna
