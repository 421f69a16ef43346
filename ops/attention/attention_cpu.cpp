// Fused attention on the CPU. A task is one head of one sample: its keys and values are packed once, then each block of
// queries passes through cache.
#include "ops/attention/attention_kernels.h"
#include "ops/attention/dense_form.h"

#include "core/parallel.h"
#include "core/planned_device.h"
#include "ops/attention/attention_factors.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace lacuna {
namespace {

using tile::Arena;
using tile::lanes;
using tile::softmax_rows;
using tile::Vector;

/// Sizes of one thread's blocks: all keys of a head, some of its queries.
template <class C>
struct Blocks {
  std::int64_t stride;   // elements from one query's scores to the next's
  std::int64_t queries;  // per block

  explicit Blocks(const AttentionArguments& a) : stride(tile::padded<C>(a.keys)) {
    constexpr std::int64_t cache = 96 * 1024;  // bytes of scores: a part of the second level
    if (stride * static_cast<std::int64_t>(sizeof(C)) % 1024 == 0) stride += lanes<C>;  // spread over the cache's sets
    const std::int64_t fitting = cache / (stride * static_cast<std::int64_t>(sizeof(C))) / tile::rows * tile::rows;
    queries = std::min(tile::round_up(a.queries, tile::rows), std::max<std::int64_t>(fitting, 4 * tile::rows));
  }
  std::int64_t scores() const { return queries * stride + tile::rows; }  // a transposed left factor reads past its end
};

/// Rows of tokens: head h of sample b starts at data + b · sample + h · head_dim, or at the row where the sample
/// begins.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t stride = 0, sample = 0;
  const std::int64_t* offsets = nullptr;  // of the samples' rows; null: all have as many

  Rows(const TokenColumns& columns, std::int64_t rows_per_sample, const std::int64_t* row_offsets = nullptr)
      : offsets(row_offsets) {
    if (!columns.tokens.defined() || columns.tokens.raw() == nullptr) return;  // not wanted, or on meta
    data = columns.tokens.data<std::remove_const_t<T>>() + columns.first;
    stride = columns.tokens.shape().back();
    sample = rows_per_sample * stride;
  }
  T* of(std::int64_t b, std::int64_t column) const {
    return data + (offsets == nullptr ? b * sample : (offsets[b] - offsets[0]) * stride) + column;
  }
};

/// First rows of the samples' keys, or null.
const std::int64_t* key_offsets(const AttentionArguments& a) {
  return a.sequences == nullptr ? nullptr : a.sequences->offsets() + a.first;
}
const std::int64_t* query_offsets(const AttentionArguments& a) { return a.every_query ? key_offsets(a) : nullptr; }

struct Task {
  std::int64_t sample, head;
};

/// The inputs of one problem for both passes, and the steps that both share.
template <class T, bool pairs>
class Pass {
 protected:
  using C = Compute<T>;
  using Factors = tile::Factors<T, pairs>;
  using Element = typename Factors::Element;
  static_assert(sizeof(Element) == sizeof(C));  // one arena holds both

  explicit Pass(const AttentionArguments& a)
      : a_(a),
        blocks_(a),
        d_(a.head_dim),
        q_(a.q, a.query_rows, query_offsets(a)),
        k_(a.k, a.keys, key_offsets(a)),
        v_(a.v, a.keys, key_offsets(a)) {
    if (a.bias.defined()) {
      const Shape& shape = a.bias.shape();
      bias_ = a.bias.data<T>();
      bias_windows_ = shape[0];
      bias_row_ = shape[2] == 1 ? 0 : shape[3];
      bias_head_ = shape[1] == 1 ? 0 : shape[2] * shape[3];
      bias_window_ = shape[1] * shape[2] * shape[3];
    }
    if (a.key_lengths.defined()) key_lengths_ = a.key_lengths.data<std::int64_t>();
    if (a.sequences != nullptr) key_lengths_ = a.sequences->lengths();
    dropped_below_ = static_cast<std::uint32_t>(std::min(std::ldexp(a.dropout, 32), 4294967295.0));
  }

  /// Keys that the sample's queries see.
  std::int64_t keys_of(std::int64_t sample) const {
    return key_lengths_ == nullptr ? a_.keys : key_lengths_[a_.first + sample];
  }
  std::int64_t queries_of(std::int64_t sample) const {
    return query_offsets(a_) == nullptr ? a_.queries : keys_of(sample);
  }
  /// Rows of keys, and of queries, padding included.
  std::int64_t key_rows_of(std::int64_t sample) const {
    const std::int64_t* const offsets = key_offsets(a_);
    return offsets == nullptr ? a_.keys : offsets[sample + 1] - offsets[sample];
  }
  std::int64_t query_rows_of(std::int64_t sample) const {
    return query_offsets(a_) == nullptr ? a_.query_rows : key_rows_of(sample);
  }
  /// First element of a task's bias, in bias and in each part of its gradient.
  std::int64_t bias_offset(Task task) const {
    return (a_.first + task.sample) % bias_windows_ * bias_window_ + task.head * bias_head_;
  }
  /// Scores [count, keys] of queries from `begin` on, as logarithms to base 2, then exp and the rows' factors.
  void probabilities(Task task, std::int64_t begin, std::int64_t count, std::int64_t keys, const Element* k_transposed,
                     Element* q_copy, C* scores, C* inverse) const {
    const std::int64_t stride = blocks_.stride;
    const T* const q = q_.of(task.sample, task.head * d_) + begin * q_.stride;
    const auto scale = static_cast<C>(a_.scale * std::numbers::log2e);
    tile::product(Factors::tokens(q, q_.stride, count, d_, q_copy), count, Factors::depth(d_), k_transposed, keys,
                  [&](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
                    tile::store(scores + i * stride + j, sum * scale);
                  });
    if (bias_ != nullptr) {
      const T* row = bias_ + bias_offset(task) + begin * bias_row_;
      constexpr auto log2e = static_cast<C>(std::numbers::log2e);
      for (std::int64_t i = 0; i < count; ++i, row += bias_row_)
#pragma GCC ivdep
        for (std::int64_t j = 0; j < keys; ++j) scores[i * stride + j] += log2e * to_compute(row[j]);
    }
    softmax_rows(scores, stride, count, keys, inverse);
  }
  /// Elements of factors: all keys transposed, `count` rows of tokens, and a copy of a block's tokens.
  std::int64_t transposed() const { return tile::padded<C>(a_.keys) * Factors::depth(d_); }
  std::int64_t rows_of(std::int64_t count) const { return Factors::depth(count) * tile::padded<C>(d_); }
  std::int64_t left_copy() const { return is_half<T> ? blocks_.queries * Factors::depth(d_) : 0; }
  static Element* factor(C* memory) { return reinterpret_cast<Element*>(memory); }
  bool drops() const { return a_.dropout > 0; }
  C kept_scale() const { return static_cast<C>(1 / (1 - a_.dropout)); }
  std::int64_t draws() const { return drops() ? tile::round_up(a_.keys + 3, 4) : 0; }
  /// Draws that decide on a query's keys, made in `memory`, whose elements have no fewer bytes than a draw.
  const std::uint32_t* draw(Task task, std::int64_t query, std::int64_t keys, C* memory) const {
    const auto sample = static_cast<std::uint64_t>(a_.first + task.sample);
    const std::int64_t first = (task.head * a_.draw_rows + query) * a_.draw_columns;  // element of the sample
    auto* const numbers = reinterpret_cast<std::uint32_t*>(memory);
    const std::int64_t skip = first % 4;
#pragma GCC ivdep
    for (std::int64_t block = 0; block < (skip + keys + 3) / 4; ++block) {
      const std::array<std::uint32_t, 4> four =
          a_.stream.draw_of_sample(sample, static_cast<std::uint32_t>(first / 4 + block));
      for (std::size_t i = 0; i < 4; ++i) numbers[4 * block + static_cast<std::int64_t>(i)] = four[i];
    }
    return numbers + skip;
  }
  /// Fetches into cache, piece by piece, what a later task reads of q, k and v.
  auto fetcher(Task next) const {
    const std::int64_t column = next.head * d_;
    return [this, q = q_.of(next.sample, column), k = k_.of(next.sample, column), v = v_.of(next.sample, column)](
               std::int64_t i, std::int64_t j) {
      __builtin_prefetch(q + i * q_.stride + j);
      __builtin_prefetch(k + i * k_.stride + j);
      __builtin_prefetch(v + i * v_.stride + j);
    };
  }

  const AttentionArguments& a_;
  Blocks<C> blocks_;
  std::int64_t d_;
  Rows<const T> q_, k_, v_;
  const T* bias_ = nullptr;
  std::int64_t bias_windows_ = 1, bias_window_ = 0, bias_head_ = 0, bias_row_ = 0;
  const std::int64_t* key_lengths_ = nullptr;
  std::uint32_t dropped_below_ = 0;
};

template <class T, bool pairs>
class Forward : Pass<T, pairs> {
  using typename Pass<T, pairs>::C;
  using typename Pass<T, pairs>::Element;
  using typename Pass<T, pairs>::Factors;
  using Pass<T, pairs>::a_, Pass<T, pairs>::blocks_, Pass<T, pairs>::d_, Pass<T, pairs>::k_, Pass<T, pairs>::v_;

 public:
  explicit Forward(const AttentionArguments& a) : Pass<T, pairs>(a) {}

  std::int64_t workspace() const {
    const auto rounded = Arena<C>::rounded;
    return rounded(this->transposed()) + rounded(this->rows_of(a_.keys)) + rounded(blocks_.scores()) +
           rounded(blocks_.queries) + rounded(this->left_copy()) + rounded(this->draws());
  }

  /// One task's output, rows of `y` [samples · queries, D]. The rows of `next` are fetched into cache meanwhile.
  void run(T* y, Task task, Task next, C* memory) const {
    const std::int64_t width = a_.heads * d_, keys = this->keys_of(task.sample);
    const std::int64_t queries = this->queries_of(task.sample);
    const std::int64_t* const offsets = query_offsets(a_);
    const std::int64_t first = offsets == nullptr ? task.sample * a_.queries : offsets[task.sample] - offsets[0];
    T* const o = y + first * width + task.head * d_;
    if (keys == 0) {
      for (std::int64_t i = 0; i < queries; ++i) std::fill_n(o + i * width, d_, T{});
      return;
    }
    if (offsets != nullptr)  // padding
      for (std::int64_t i = queries; i < this->query_rows_of(task.sample); ++i) std::fill_n(o + i * width, d_, T{});
    Arena<C> arena(memory);
    Element* const k = this->factor(arena.take(this->transposed()));      // kᵀ in panels, [d, keys]
    Element* const v = this->factor(arena.take(this->rows_of(a_.keys)));  // panels, [keys, d]
    C* const scores = arena.take(blocks_.scores());                       // [block, stride]
    C* const inverse = arena.take(blocks_.queries);
    Element* const q_copy = this->factor(arena.take(this->left_copy()));
    C* const draws = arena.take(this->draws());
    const std::int64_t stride = blocks_.stride;
    const auto fetch = this->fetcher(next);
    Factors::pack_transposed(k_.of(task.sample, task.head * d_), k_.stride, d_, keys, k);
    Factors::pack(v_.of(task.sample, task.head * d_), v_.stride, keys, d_, v);
    for (std::int64_t begin = 0; begin < queries; begin += blocks_.queries) {
      const std::int64_t count = std::min(blocks_.queries, queries - begin);
      this->probabilities(task, begin, count, keys, k, q_copy, scores, inverse);
      if (this->drops()) {
        for (std::int64_t i = 0; i < count; ++i) {
          const std::uint32_t* const drawn = this->draw(task, begin + i, keys, draws);
          C* const p = scores + i * stride;
#pragma GCC ivdep
          for (std::int64_t j = 0; j < keys; ++j) p[j] = drawn[j] < this->dropped_below_ ? C(0) : p[j];
          inverse[i] *= this->kept_scale();
        }
      }
      tile::product(Factors::scores(scores, stride, count, keys), count, Factors::depth(keys), v, d_,
                    [&](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
                      tile::store_as(o + (begin + i) * width + j, sum * inverse[i], d_ - j);
                      fetch(begin + i, j);
                    });
    }
  }
};

template <class T, bool pairs>
class Backward : Pass<T, pairs> {
  using typename Pass<T, pairs>::C;
  using typename Pass<T, pairs>::Element;
  using typename Pass<T, pairs>::Factors;
  using Pass<T, pairs>::a_, Pass<T, pairs>::blocks_, Pass<T, pairs>::d_, Pass<T, pairs>::q_, Pass<T, pairs>::k_,
      Pass<T, pairs>::v_;

 public:
  Backward(const AttentionArguments& a, const Tensor& dy, const AttentionGradients& to)
      : Pass<T, pairs>(a),
        dy_(TokenColumns{dy}, a.queries, query_offsets(a)),
        dq_(to.q, a.query_rows, query_offsets(a)),
        dk_(to.k, a.keys, key_offsets(a)),
        dv_(to.v, a.keys, key_offsets(a)),
        dbias_(to.bias_sums.defined() ? to.bias_sums.data<C>() : nullptr) {}

  std::int64_t workspace() const {
    const auto rounded = Arena<C>::rounded;
    return 2 * rounded(this->transposed()) + rounded(this->rows_of(a_.keys)) +
           2 * rounded(this->rows_of(blocks_.queries)) + 2 * rounded(sums()) + 2 * rounded(blocks_.scores()) +
           rounded(blocks_.queries) + rounded(this->left_copy()) + rounded(this->draws());
  }

  /// One task's gradients; that of bias is added to part `part` of the sums. The rows of `next` are fetched into cache
  /// meanwhile.
  void run(Task task, Task next, std::int64_t part, C* memory) const {
    const std::int64_t keys = this->keys_of(task.sample), column = task.head * d_;
    const std::int64_t queries = this->queries_of(task.sample), key_rows = this->key_rows_of(task.sample);
    if (dq_.data != nullptr) {
      const std::int64_t written = keys == 0 ? 0 : queries;
      zero_rows(dq_, task, written, this->query_rows_of(task.sample));  // tokens that are not queries
    }
    if (dk_.data != nullptr) zero_rows(dk_, task, keys, key_rows);
    if (dv_.data != nullptr) zero_rows(dv_, task, keys, key_rows);
    if (keys == 0) return;

    Arena<C> arena(memory);
    const auto take_factor = [&](std::int64_t count) { return this->factor(arena.take(count)); };
    Element* const k_transposed = take_factor(this->transposed());         // panels, [d, keys]
    Element* const v_transposed = take_factor(this->transposed());         // panels, [d, keys]
    Element* const k_rows = take_factor(this->rows_of(a_.keys));           // panels, [keys, d]
    Element* const q_rows = take_factor(this->rows_of(blocks_.queries));   // panels, [block, d]
    Element* const dy_rows = take_factor(this->rows_of(blocks_.queries));  // panels, [block, d]
    C* const dk_sums = arena.take(sums());                                 // [keys, d] where there are several blocks
    C* const dv_sums = arena.take(sums());
    C* const p = arena.take(blocks_.scores());       // [block, stride]: probabilities
    C* const ds = arena.take(blocks_.scores());      // [block, stride]: gradients of the scores
    C* const inverse = arena.take(blocks_.queries);  // of the denominators
    Element* const copy = take_factor(this->left_copy());
    C* const draws = arena.take(this->draws());

    const bool scores_gradient = dq_.data != nullptr || dk_.data != nullptr || dbias_ != nullptr;
    const std::int64_t stride = blocks_.stride;
    const T* const k = k_.of(task.sample, column);
    const auto fetch = this->fetcher(next);
    const T* const next_dy = dy_.of(next.sample, next.head * d_);
    const auto scale = static_cast<C>(a_.scale);
    Factors::pack_transposed(k, k_.stride, d_, keys, k_transposed);
    if (scores_gradient) {
      Factors::pack_transposed(v_.of(task.sample, column), v_.stride, d_, keys, v_transposed);
      Factors::pack(k, k_.stride, keys, d_, k_rows);
    }

    for (std::int64_t begin = 0; begin < queries; begin += blocks_.queries) {
      const std::int64_t count = std::min(blocks_.queries, queries - begin);
      const T* const q_block = q_.of(task.sample, column) + begin * q_.stride;
      const T* const dy_block = dy_.of(task.sample, column) + begin * dy_.stride;
      Factors::pack(q_block, q_.stride, count, d_, q_rows);
      Factors::pack(dy_block, dy_.stride, count, d_, dy_rows);
      // Adds up the blocks' gradients of a key and writes them with the last block.
      const auto gather = [&](const Rows<T>& to, C* sums, C factor) {
        return [=, this, first = begin == 0, last = begin + count == queries, rows = to.of(task.sample, column)](
                   std::int64_t i, std::int64_t j, const Vector<C>& sum) {
          C* const partial = sums + i * tile::padded<C>(d_) + j;
          const Vector<C> all = first ? sum : sum + tile::load(partial);
          if (last)
            tile::store_as(rows + i * to.stride + j, all * factor, d_ - j);
          else
            tile::store(partial, all);
        };
      };
      this->probabilities(task, begin, count, keys, k_transposed, copy, p, inverse);
      if (scores_gradient) {
        // ds = p ∘ (dp − Σ p ∘ dp), dp = dy·vᵀ
        tile::product(Factors::tokens(dy_block, dy_.stride, count, d_, copy), count, Factors::depth(d_), v_transposed,
                      keys, [&](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
                        const std::int64_t place = i * stride + j;
                        const Vector<C> probability = tile::load(p + place) * inverse[i];
                        tile::store(p + place, probability);
                        tile::store(ds + place, probability * sum);
                      });
        for (std::int64_t i = 0; i < count; ++i) {
          if (this->drops())
            finish_dropped(this->draw(task, begin + i, keys, draws), keys, p + i * stride, ds + i * stride);
          else
            tile::softmax_gradient(keys, p + i * stride, ds + i * stride);
        }
      } else {
        for (std::int64_t i = 0; i < count; ++i) {
          scale_row(keys, inverse[i], p + i * stride);
          if (this->drops()) drop(this->draw(task, begin + i, keys, draws), keys, p + i * stride);
        }
      }
      const std::int64_t depth = Factors::depth(count);
      if (dv_.data != nullptr)  // dv = pᵀ·dy
        tile::product(Factors::transposed_scores(p, stride, count, keys, p), keys, depth, dy_rows, d_,
                      gather(dv_, dv_sums, C(1)));
      if (dbias_ != nullptr) add_to_bias(task, part, begin, count, keys, ds);
      if (dk_.data != nullptr)  // dk = scale · dsᵀ·q; p is no longer needed
        tile::product(Factors::transposed_scores(ds, stride, count, keys, p), keys, depth, q_rows, d_,
                      gather(dk_, dk_sums, scale));
      if (dq_.data != nullptr) {  // dq = scale · ds·k
        T* const dq = dq_.of(task.sample, column) + begin * dq_.stride;
        tile::product(Factors::scores(ds, stride, count, keys), count, Factors::depth(keys), k_rows, d_,
                      [&](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
                        tile::store_as(dq + i * dq_.stride + j, sum * scale, d_ - j);
                        fetch(begin + i, j);
                        __builtin_prefetch(next_dy + (begin + i) * dy_.stride + j);
                      });
      }
    }
  }

 private:
  void zero_rows(const Rows<T>& of, Task task, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = begin; i < end; ++i) std::fill_n(of.of(task.sample, task.head * d_) + i * of.stride, d_, T{});
  }
  /// The same with dropout, of which `ds` knows nothing yet; the probabilities become those after dropout.
  void finish_dropped(const std::uint32_t* drawn, std::int64_t keys, C* p, C* ds) const {
    const C scale = this->kept_scale();
    C total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t j = 0; j < keys; ++j) {
      ds[j] = drawn[j] < this->dropped_below_ ? C(0) : ds[j] * scale;
      total += ds[j];
    }
#pragma omp simd
    for (std::int64_t j = 0; j < keys; ++j) ds[j] = ds[j] - p[j] * total;
    drop(drawn, keys, p);
  }
  void drop(const std::uint32_t* drawn, std::int64_t keys, C* p) const {
    const C scale = this->kept_scale();
#pragma omp simd
    for (std::int64_t j = 0; j < keys; ++j) p[j] = drawn[j] < this->dropped_below_ ? C(0) : p[j] * scale;
  }
  static void scale_row(std::int64_t keys, C factor, C* p) {
#pragma omp simd
    for (std::int64_t j = 0; j < keys; ++j) p[j] *= factor;
  }
  void add_to_bias(Task task, std::int64_t part, std::int64_t begin, std::int64_t count, std::int64_t keys,
                   const C* ds) const {
    C* row =
        dbias_ + part * this->bias_windows_ * this->bias_window_ + this->bias_offset(task) + begin * this->bias_row_;
    for (std::int64_t i = 0; i < count; ++i, row += this->bias_row_, ds += blocks_.stride) {
#pragma omp simd
      for (std::int64_t j = 0; j < keys; ++j) row[j] += ds[j];
    }
  }
  std::int64_t sums() const { return blocks_.queries < a_.queries ? a_.keys * tile::padded<C>(d_) : 0; }

  Rows<const T> dy_;
  Rows<T> dq_, dk_, dv_;
  C* dbias_;
};

/// Calls `f(task, next task, thread)` for each head of each sample. Threads get about equal numbers of products.
template <class F>
void for_each_task(const AttentionArguments& a, const F& f) {
  const std::int64_t tasks = a.samples * a.heads;
  const auto run = [&](std::int64_t task, std::int64_t thread) {
    const std::int64_t next = std::min(task + 1, tasks - 1);
    f(Task{task / a.heads, task % a.heads}, Task{next / a.heads, next % a.heads}, thread);
  };
  if (a.sequences == nullptr) return parallel_tasks(tasks, run);
  std::vector<std::int64_t> costs{0};  // [samples + 1], of the samples before, a head of each
  constexpr std::int64_t fixed = 32;   // tokens that a row costs beside its products
  for (std::int64_t i = a.first; i < a.first + a.samples; ++i) {
    const std::int64_t keys = a.sequences->length(i);
    costs.push_back(costs.back() + (a.every_query ? keys : a.queries) * (keys + fixed));
  }
  const std::int64_t all = costs.back() * a.heads, count = threads();
  const auto first_of = [&](std::int64_t thread) {
    const std::int64_t cost = all * thread / count;
    const auto sample = std::upper_bound(costs.begin(), costs.end(), cost / a.heads) - costs.begin() - 1;
    if (sample == a.samples) return tasks;
    const std::int64_t each = costs[static_cast<std::size_t>(sample) + 1] - costs[static_cast<std::size_t>(sample)];
    return sample * a.heads + (cost - costs[static_cast<std::size_t>(sample)] * a.heads) / each;
  };
  parallel_tasks(count, [&](std::int64_t part, std::int64_t thread) {
    for (std::int64_t task = first_of(part); task < first_of(part + 1); ++task) run(task, thread);
  });
}

/// Calls `f(task, next task, part, thread)` for each head of each sample. One thread has all tasks that add to the same
/// row of `bias_sums` [parts, W, H or 1, ...], in ascending order of samples.
template <class F>
void for_each_bias_task(const AttentionArguments& a, const Shape& bias_sums, const F& f) {
  const std::int64_t parts = bias_sums[0], windows = bias_sums[1], bias_heads = bias_sums[2], step = parts * windows;
  const std::int64_t end = a.first + a.samples;
  parallel_tasks(step * bias_heads, [&](std::int64_t index, std::int64_t thread) {
    const std::int64_t residue = index / bias_heads, part = residue / windows;  // of the sample's number by `step`
    const std::int64_t from = bias_heads == 1 ? 0 : index % bias_heads, to = bias_heads == 1 ? a.heads : from + 1;
    const std::int64_t begin = a.first + (residue + step - a.first % step) % step;
    for (std::int64_t sample = begin; sample < end; sample += step)
      for (std::int64_t head = from; head < to; ++head) {
        const Task task{sample - a.first, head};
        const Task next = head + 1 < to         ? Task{task.sample, head + 1}
                          : sample + step < end ? Task{task.sample + step, from}
                                                : task;
        f(task, next, part, thread);
      }
  });
}

/// Throws Error for a length that is not one of [0, keys].
void check_key_lengths(const AttentionArguments& a) {
  if (!a.key_lengths.defined()) return;
  const std::int64_t* const lengths = a.key_lengths.data<std::int64_t>();
  for (std::int64_t i = a.first; i < a.first + a.samples; ++i)
    expect(0 <= lengths[i] && lengths[i] <= a.keys,
           "attention: expected key_lengths between 0 and the {} keys, got {} for sample {}", a.keys, lengths[i], i);
}

void forward(const AttentionArguments& a, const Tensor& y, Tensor&, const Tensor& workspace) {
  check_key_lengths(a);
  tile::with_factors(y.dtype(), [&]<class T, bool pairs>(Type<T>, std::bool_constant<pairs>) {
    using C = Compute<T>;
    const Forward<T, pairs> kernel(a);
    for_each_task(a, [&](Task task, Task next, std::int64_t thread) {
      kernel.run(y.data<T>(), task, next, workspace.data<C>() + thread * workspace.shape()[1]);
    });
  });
}

void backward(const AttentionArguments& a, const Tensor& dy, const AttentionGradients& to, const Tensor& workspace) {
  tile::with_factors(dy.dtype(), [&]<class T, bool pairs>(Type<T>, std::bool_constant<pairs>) {
    using C = Compute<T>;
    const Backward<T, pairs> kernel(a, dy, to);
    const auto run = [&](Task task, Task next, std::int64_t part, std::int64_t thread) {
      kernel.run(task, next, part, workspace.data<C>() + thread * workspace.shape()[1]);
    };
    if (to.bias_sums.defined())
      for_each_bias_task(a, to.bias_sums.shape(), run);
    else
      for_each_task(a, [&](Task task, Task next, std::int64_t thread) { run(task, next, 0, thread); });
  });
}

void sum_bias(const Tensor& bias_sums, const Tensor& bias_gradient) {
  with_float_type(bias_gradient.dtype(), [&]<class T>(Type<T>) {
    using C = Compute<T>;
    const C* const sums = bias_sums.data<C>();
    T* const to = bias_gradient.data<T>();
    const std::int64_t parts = bias_sums.shape()[0], count = bias_gradient.count();
    parallel_for(count, 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        C sum = sums[i];
        for (std::int64_t part = 1; part < parts; ++part) sum += sums[part * count + i];
        to[i] = static_cast<T>(sum);
      }
    });
  });
}

const RegisterKernel cpu_forward{attention_forward, DeviceKind::cpu, forward};
const RegisterKernel cpu_backward{attention_backward, DeviceKind::cpu, backward};
const RegisterKernel cpu_sum_bias{attention_sum_bias, DeviceKind::cpu, sum_bias};

}  // namespace

std::int64_t attention_forward_workspace(const AttentionArguments& a, DType dtype, Device device, Tensor& log_sums) {
  if (computes_on_cuda(device)) {
    if (const auto form = dense_form(a); form.has_value())
      log_sums = take_dense_forward_memory(*form, dtype, device);
    return 0;
  }
  return tile::with_factors(
      dtype, [&]<class T, bool pairs>(Type<T>, std::bool_constant<pairs>) { return Forward<T, pairs>(a).workspace(); });
}
std::int64_t attention_backward_workspace(const AttentionArguments& a, DType dtype, Device device) {
  if (computes_on_cuda(device)) {
    if (const auto form = dense_form(a); !form.has_value() || !take_dense_backward_memory(*form, dtype, device))
      take_attention_memory(a.samples * a.heads, a.queries, a.sequences == nullptr ? 0 : a.samples, device);
    return 0;
  }
  return tile::with_factors(dtype, [&]<class T, bool pairs>(Type<T>, std::bool_constant<pairs>) {
    return Backward<T, pairs>(a, {}, {}).workspace();
  });
}

}  // namespace lacuna
