// Causal attention on the CPU. A task has heads that share one of k and v: its keys and values are packed once, then
// blocks of queries pass through cache, each with the keys that it sees.
#include "core/math.h"
#include "core/planned_device.h"
#include "ops/attention/causal_kernels.h"
#include "ops/attention/causal_tiles.h"
#include "ops/attention/dense_form.h"
#include "ops/attention/rounded_alibi.h"

#include <array>
#include <cmath>
#include <numbers>

namespace lacuna {
namespace {

using tile::product_within;

/// Heads [begin, end) of q in a sequence, which share head `kv` of k.
struct CausalTask {
  std::int64_t sequence, kv, part;
  std::int64_t begin, end;
};

/// Rows of q that pass through cache together: queries of one head, or the heads of a lone query.
struct QueryBlock {
  std::int64_t sequence, query, head, count;  // the first's
  bool of_heads;
  std::int64_t query_of(std::int64_t i) const { return of_heads ? query : query + i; }
  std::int64_t head_of(std::int64_t i) const { return of_heads ? head + i : head; }
};

/// The part that both passes share.
template <class T, bool pairs>
class CausalPass {
 protected:
  using C = Compute<T>;
  using Factors = tile::Factors<T, pairs>;
  using Element = typename Factors::Element;
  static constexpr std::int64_t panel = 2 * tile::lanes<C>;  // columns
  static_assert(sizeof(Element) == sizeof(C));               // one arena holds both

  explicit CausalPass(const CausalArguments& a)
      : a_(a), d_(a.head_dim), longest_(a.keys.longest()), stride_(tile::padded<C>(longest_) + tile::lanes<C>) {
    constexpr std::int64_t cache = 96 * 1024, least = 4 * tile::rows;  // bytes of scores; rows
    const std::int64_t fitting = cache / (stride_ * static_cast<std::int64_t>(sizeof(C))) / tile::rows * tile::rows;
    const std::int64_t wanted = std::max(a.queries.longest(), a.group());
    block_ = std::min(tile::round_up(wanted, tile::rows), std::max(fitting, least));
    dropped_below_ = static_cast<std::uint32_t>(std::min(std::ldexp(a.dropout, 32), 4294967295.0));
  }

  /// The first of a sequence's rows: head `head` of q's [.., heads · d], or of k's.
  template <class U>
  U* rows_of_queries(const Tensor& tokens, std::int64_t sequence, std::int64_t head) const {
    const std::int64_t row = a_.queries.begin(sequence) - a_.queries.begin(a_.first);
    return tokens.data<U>() + row * a_.heads * d_ + head * d_;
  }
  template <class U>
  U* rows_of_keys(const Tensor& tokens, std::int64_t sequence, std::int64_t head) const {
    const std::int64_t row = a_.keys.begin(sequence) - a_.keys.begin(a_.first);
    return tokens.data<U>() + row * a_.kv_heads * d_ + head * d_;
  }
  /// Elements from one row of a block to the next, in q and in y.
  std::int64_t row_step(const QueryBlock& block) const { return block.of_heads ? d_ : a_.heads * d_; }

  /// Calls `f(block)` for all queries of a task.
  template <class F>
  void for_blocks(const CausalTask& task, const F& f) const {
    const std::int64_t first = a_.first_query(task.sequence), keys = a_.keys.length(task.sequence);
    if (first + 1 == keys) {
      for (std::int64_t head = task.begin; head < task.end; head += block_)
        f(QueryBlock{task.sequence, first, head, std::min(block_, task.end - head), true});
      return;
    }
    for (std::int64_t head = task.begin; head < task.end; ++head)
      for (std::int64_t query = first; query < keys; query += block_)
        f(QueryBlock{task.sequence, query, head, std::min(block_, keys - query), false});
  }

  /// Keys [begin, end) of whose panels a block has scores.
  Range keys_of(const CausalTask& task, const QueryBlock& block) const {
    const std::int64_t end = a_.end_key(task.sequence, block.query_of(block.count - 1));
    return {a_.first_key(block.query) / panel * panel,
            std::min(tile::round_up(end, panel), a_.keys.length(task.sequence))};
  }
  /// The scores that row i of the block sees, counted from the first key of the block.
  Range seen_by(const QueryBlock& block, Range keys, std::int64_t i) const {
    const std::int64_t query = block.query_of(i);
    return {a_.first_key(query) - keys.begin, a_.end_key(block.sequence, query) - keys.begin};
  }
  /// The scores that the tile of rows from `row` on sees.
  Range seen_by_tile(const QueryBlock& block, Range keys, std::int64_t row) const {
    const std::int64_t last = std::min<std::int64_t>(row + tile::rows, block.count) - 1;
    return {seen_by(block, keys, row).begin, seen_by(block, keys, last).end};
  }
  /// For products [queries, d] · [d, keys]: all of d where the tile sees any of the columns.
  auto where_seen(const QueryBlock& block, Range keys) const {
    return [=, this](std::int64_t row, std::int64_t column, std::int64_t width) {
      const Range seen = seen_by_tile(block, keys, row);
      return column < seen.end && seen.begin < column + width ? Range{0, d_} : Range{};
    };
  }
  /// For products [queries, keys] · [keys, d]: the keys that the tile sees. Panels begin at key 0 of the sequence.
  auto seen_depth(const QueryBlock& block, Range keys) const {
    return [=, this](std::int64_t row, std::int64_t, std::int64_t) {
      const Range seen = seen_by_tile(block, keys, row);
      return Range{seen.begin / 2 * 2, seen.end};  // whole pairs
    };
  }
  /// For products [keys, queries] · [queries, d]: the rows that see any key of the tile.
  auto seeing_rows(const QueryBlock& block, Range keys) const {
    return [=, this](std::int64_t row, std::int64_t, std::int64_t) {
      if (block.of_heads) return Range{0, block.count};
      const std::int64_t key = keys.begin + row, last = key + tile::rows - 1;
      const std::int64_t end = a_.window == 0 ? block.count : last + a_.window - block.query;
      return Range{std::max<std::int64_t>(0, key - a_.ahead - block.query), std::min(end, block.count)};
    };
  }

  /// Scores of a block to base 2, then their powers and the rows' factors. caps [block, stride], if there is a soft
  /// cap: tanh(score / soft_cap).
  void probabilities(const QueryBlock& block, Range keys, const T* q, const Element* k_transposed, Element* q_copy,
                     C* scores, C* caps, C* inverse) const {
    const C scale = scale_of_products();
    product_within(Factors::tokens(q, row_step(block), block.count, d_, q_copy), block.count, d_,
                   k_transposed + keys.begin * Factors::depth(d_), keys.end - keys.begin, where_seen(block, keys),
                   [&](std::int64_t i, std::int64_t j, const tile::Vector<C>& sum) {
                     tile::store(scores + i * stride_ + j, sum * scale);
                   });
    bend(block, keys, scores, caps);
    tile::softmax_rows_within(
        scores, stride_, block.count, tile::padded<C>(keys.end - keys.begin),
        [&](std::int64_t i) { return seen_by(block, keys, i); }, inverse);
  }
  /// From q·k to what `bend` takes.
  C scale_of_products() const {
    return static_cast<C>(is_capped() ? a_.scale / a_.soft_cap : a_.scale * std::numbers::log2e);
  }
  /// From scaled products of a block to scores to base 2: the soft cap and the slopes, if there are any.
  void bend(const QueryBlock& block, Range keys, C* scores, C* caps) const {
    if (!is_capped() && a_.slopes.empty()) return;
    constexpr auto log2e = static_cast<C>(std::numbers::log2e);
    for (std::int64_t i = 0; i < block.count; ++i) {
      const Range seen = seen_by(block, keys, i);
      C* const row = scores + i * stride_;
      if (is_capped()) cap(seen, row, caps + i * stride_);
      if (a_.slopes.empty()) continue;
      const auto own = static_cast<C>(a_.slopes[static_cast<std::size_t>(block.head_of(i))]), slope = log2e * own;
      if (a_.rounds_alibi) {
        const C factor = log2e * static_cast<C>(a_.scale);
        for (std::int64_t j = seen.begin; j < seen.end; ++j)
          row[j] += factor * static_cast<C>(rounded_alibi(static_cast<float>(own), keys.begin + j));
        continue;
      }
      const std::int64_t own_key = block.query_of(i) - keys.begin;
#pragma GCC ivdep
      for (std::int64_t j = seen.begin; j < seen.end; ++j) row[j] += slope * static_cast<C>(j - own_key);
    }
  }
  bool is_capped() const { return a_.soft_cap != 0; }
  bool drops() const { return a_.dropout > 0; }
  C kept_scale() const { return static_cast<C>(1 / (1 - a_.dropout)); }
  /// Draws that decide on the keys that row i of the block sees, made in `memory`, whose elements have no fewer bytes
  /// than a draw; as long as a row of scores.
  const std::uint32_t* draw(const CausalTask& task, const QueryBlock& block, Range keys, std::int64_t i,
                            C* memory) const {
    const auto sample = static_cast<std::uint64_t>(task.sequence);
    const Range seen = seen_by(block, keys, i);
    const std::int64_t first =
        (block.head_of(i) * a_.positions + block.query_of(i)) * a_.positions + keys.begin + seen.begin;
    auto* const numbers = reinterpret_cast<std::uint32_t*>(memory);
    const std::int64_t skip = first % 4;
#pragma GCC ivdep
    for (std::int64_t four = 0; four < (skip + seen.end - seen.begin + 3) / 4; ++four) {
      const std::array<std::uint32_t, 4> drawn =
          a_.stream.draw_of_sample(sample, static_cast<std::uint32_t>(first / 4 + four));
      for (std::size_t n = 0; n < 4; ++n) numbers[4 * four + static_cast<std::int64_t>(n)] = drawn[n];
    }
    return numbers + skip;
  }

  // Elements of what a thread works in.
  std::int64_t transposed() const { return tile::padded<C>(longest_) * Factors::depth(d_); }
  std::int64_t rows_of(std::int64_t count) const { return Factors::depth(count) * tile::padded<C>(d_); }
  std::int64_t scores() const { return block_ * stride_ + tile::rows; }  // a transposed factor reads past its end
  std::int64_t left_copy() const { return is_half<T> ? block_ * Factors::depth(d_) : 0; }
  std::int64_t draws() const { return drops() ? tile::round_up(longest_ + 3, 4) : 0; }
  static Element* factor(C* memory) { return reinterpret_cast<Element*>(memory); }

  const CausalArguments& a_;
  std::int64_t d_, longest_, stride_, block_ = 0;
  std::uint32_t dropped_below_ = 0;

 private:
  /// From score / soft_cap to tanh of it in `caps`, and to the score to base 2.
  void cap(Range seen, C* row, C* caps) const {
    const auto factor = static_cast<C>(a_.soft_cap * std::numbers::log2e);
#pragma GCC ivdep
    for (std::int64_t j = seen.begin; j < seen.end; ++j) {
      caps[j] = math::tanh(row[j]);
      row[j] = factor * caps[j];
    }
  }
};

template <class T, bool pairs>
class CausalForward : CausalPass<T, pairs> {
  using typename CausalPass<T, pairs>::C;
  using typename CausalPass<T, pairs>::Element;
  using typename CausalPass<T, pairs>::Factors;
  using CausalPass<T, pairs>::a_, CausalPass<T, pairs>::d_, CausalPass<T, pairs>::stride_;

 public:
  explicit CausalForward(const CausalArguments& a) : CausalPass<T, pairs>(a) {}

  std::int64_t workspace() const {
    const auto rounded = tile::Arena<C>::rounded;
    return rounded(this->transposed()) + rounded(this->rows_of(this->longest_)) + rounded(this->scores()) +
           rounded(this->is_capped() ? this->scores() : 0) + rounded(this->block_) + rounded(this->left_copy()) +
           rounded(this->draws());
  }

  void run(const CausalTask& task, const Tensor& y, C* memory) const {
    tile::Arena<C> arena(memory);
    Element* const k = this->factor(arena.take(this->transposed()));             // kᵀ in panels, [d, keys]
    Element* const v = this->factor(arena.take(this->rows_of(this->longest_)));  // panels, [keys, d]
    C* const scores = arena.take(this->scores());                                // [block, stride]
    C* const caps = arena.take(this->is_capped() ? this->scores() : 0);
    C* const inverse = arena.take(this->block_);
    Element* const q_copy = this->factor(arena.take(this->left_copy()));
    C* const draws = arena.take(this->draws());
    const std::int64_t keys = a_.keys.length(task.sequence), width = a_.kv_heads * d_;
    const std::int64_t first = a_.first_query(task.sequence), queries = a_.queries.length(task.sequence);
    const T* const k_rows = this->template rows_of_keys<T>(a_.k, task.sequence, task.kv);
    const T* const v_rows = this->template rows_of_keys<T>(a_.v, task.sequence, task.kv);
    constexpr std::int64_t few = 2;  // rows of q for which keys are not worth packing
    if (queries == 1 && task.end - task.begin <= few && !this->drops()) {
      for (std::int64_t head = task.begin; head < task.end; ++head)
        attend_with_one(task, head, k_rows, v_rows, y, reinterpret_cast<C*>(k), scores, caps);
      return pad(task, y);
    }
    Factors::pack_transposed(k_rows, width, d_, keys, k);
    Factors::pack(v_rows, width, keys, d_, v);
    this->for_blocks(task, [&](const QueryBlock& block) {
      const Range range = this->keys_of(task, block);
      const std::int64_t step = this->row_step(block), row = (block.query - first) * a_.heads * d_;
      this->probabilities(block, range, this->template rows_of_queries<T>(a_.q, task.sequence, block.head) + row, k,
                          q_copy, scores, caps, inverse);
      if (this->drops()) {
        for (std::int64_t i = 0; i < block.count; ++i) {
          const std::uint32_t* const drawn = this->draw(task, block, range, i, draws);
          const Range seen = this->seen_by(block, range, i);
          C* const p = scores + i * stride_ + seen.begin;
#pragma GCC ivdep
          for (std::int64_t j = 0; j < seen.end - seen.begin; ++j) p[j] = drawn[j] < this->dropped_below_ ? C(0) : p[j];
          inverse[i] *= this->kept_scale();
        }
      }
      T* const to = this->template rows_of_queries<T>(y, task.sequence, block.head) + row;
      const std::int64_t count = range.end - range.begin;
      product_within(
          Factors::scores(scores, stride_, block.count, count), block.count, keys, v, d_,
          this->seen_depth(block, range),
          [&](std::int64_t i, std::int64_t j, const tile::Vector<C>& sum) {
            tile::store_as(to + i * step + j, sum * inverse[i], d_ - j);
          },
          range.begin);
    });
    pad(task, y);
  }

 private:
  /// y of the lone query of a head. q [padded(d)], scores [keys], caps [keys]: memory.
  void attend_with_one(const CausalTask& task, std::int64_t head, const T* k, const T* v, const Tensor& y, C* q,
                       C* scores, C* caps) const {
    const std::int64_t width = a_.kv_heads * d_, keys = a_.keys.length(task.sequence);
    const QueryBlock block{task.sequence, keys - 1, head, 1, true};
    const Range seen{a_.first_key(keys - 1), keys};
    const T* const row = this->template rows_of_queries<T>(a_.q, task.sequence, head);
    for (std::int64_t c = 0; c < tile::padded<C>(d_); ++c) q[c] = c < d_ ? to_compute(row[c]) : C(0);
    tile::products_with_rows(q, k + seen.begin * width, width, d_, keys - seen.begin, this->scale_of_products(),
                             scores);
    this->bend(block, seen, scores, caps);
    C inverse = 0;
    tile::softmax_rows_within(
        scores, stride_, 1, tile::padded<C>(keys - seen.begin),
        [&](std::int64_t) {
          return Range{0, keys - seen.begin};
        },
        &inverse);
    tile::sum_of_rows(scores, v + seen.begin * width, width, keys - seen.begin, d_, inverse,
                      this->template rows_of_queries<T>(y, task.sequence, head));
  }
  void pad(const CausalTask& task, const Tensor& y) const {
    const std::int64_t rows = a_.queries.end(task.sequence) - a_.queries.begin(task.sequence);
    for (std::int64_t i = a_.queries.length(task.sequence); i < rows; ++i)
      std::fill_n(this->template rows_of_queries<T>(y, task.sequence, task.begin) + i * a_.heads * d_,
                  (task.end - task.begin) * d_, T{});
  }
};

template <class T, bool pairs>
class CausalBackward : CausalPass<T, pairs> {
  using typename CausalPass<T, pairs>::C;
  using typename CausalPass<T, pairs>::Element;
  using typename CausalPass<T, pairs>::Factors;
  using CausalPass<T, pairs>::a_, CausalPass<T, pairs>::d_, CausalPass<T, pairs>::stride_;

 public:
  explicit CausalBackward(const CausalArguments& a) : CausalPass<T, pairs>(a) {}

  std::int64_t workspace() const {
    const auto rounded = tile::Arena<C>::rounded;
    return 2 * rounded(this->transposed()) + rounded(this->rows_of(this->longest_)) +
           2 * rounded(this->rows_of(this->block_)) + 2 * rounded(sums()) + 2 * rounded(this->scores()) +
           rounded(this->is_capped() ? this->scores() : 0) + rounded(this->block_) + rounded(this->left_copy()) +
           rounded(this->draws());
  }

  void run(const CausalTask& task, const Tensor& dy, const CausalGradients& to, C* memory) const {
    tile::Arena<C> arena(memory);
    const auto take_factor = [&](std::int64_t count) { return this->factor(arena.take(count)); };
    Element* const k_transposed = take_factor(this->transposed());       // panels, [d, keys]
    Element* const v_transposed = take_factor(this->transposed());       // panels, [d, keys]
    Element* const k_rows = take_factor(this->rows_of(this->longest_));  // panels, [keys, d]
    Element* const q_rows = take_factor(this->rows_of(this->block_));    // panels, [block, d]
    Element* const dy_rows = take_factor(this->rows_of(this->block_));   // panels, [block, d]
    C* const dk_sums = arena.take(sums());                               // [keys, d]
    C* const dv_sums = arena.take(sums());
    C* const p = arena.take(this->scores());   // [block, stride]: probabilities
    C* const ds = arena.take(this->scores());  // [block, stride]: gradients of the scores
    C* const caps = arena.take(this->is_capped() ? this->scores() : 0);
    C* const inverse = arena.take(this->block_);  // of the denominators
    Element* const copy = take_factor(this->left_copy());
    C* const draws = arena.take(this->draws());

    const bool of_scores = to.q.defined() || to.k.defined();
    const std::int64_t keys = a_.keys.length(task.sequence), width = a_.kv_heads * d_;
    const T* const k = this->template rows_of_keys<T>(a_.k, task.sequence, task.kv);
    Factors::pack_transposed(k, width, d_, keys, k_transposed);
    if (of_scores) {
      Factors::pack_transposed(this->template rows_of_keys<T>(a_.v, task.sequence, task.kv), width, d_, keys,
                               v_transposed);
      Factors::pack(k, width, keys, d_, k_rows);
    }
    if (to.k.defined()) std::fill_n(dk_sums, sums(), C(0));
    if (to.v.defined()) std::fill_n(dv_sums, sums(), C(0));
    const std::int64_t first = a_.first_query(task.sequence), queries = a_.queries.length(task.sequence);
    const auto scale = static_cast<C>(a_.scale);

    this->for_blocks(task, [&](const QueryBlock& block) {
      const Range range = this->keys_of(task, block);
      const std::int64_t step = this->row_step(block), row = (block.query - first) * a_.heads * d_;
      const std::int64_t count = range.end - range.begin;
      const T* const q_block = this->template rows_of_queries<T>(a_.q, task.sequence, block.head) + row;
      const T* const dy_block = this->template rows_of_queries<T>(dy, task.sequence, block.head) + row;
      Factors::pack(q_block, step, block.count, d_, q_rows);
      Factors::pack(dy_block, step, block.count, d_, dy_rows);
      this->probabilities(block, range, q_block, k_transposed, copy, p, caps, inverse);
      if (of_scores) {
        // ds = p ∘ (dp − Σ p ∘ dp), dp = dy·vᵀ
        product_within(Factors::tokens(dy_block, step, block.count, d_, copy), block.count, d_,
                       v_transposed + range.begin * Factors::depth(d_), count, this->where_seen(block, range),
                       [&](std::int64_t i, std::int64_t j, const tile::Vector<C>& sum) {
                         const std::int64_t place = i * stride_ + j;
                         const tile::Vector<C> probability = tile::load(p + place) * inverse[i];
                         tile::store(p + place, probability);
                         tile::store(ds + place, probability * sum);
                       });
      }
      for (std::int64_t i = 0; i < block.count; ++i) {
        const Range seen = this->seen_by(block, range, i);
        C *const row_p = p + i * stride_ + seen.begin, *const row_ds = ds + i * stride_ + seen.begin;
        const std::int64_t n = seen.end - seen.begin;
        if (!of_scores)
          for (std::int64_t j = 0; j < n; ++j) row_p[j] *= inverse[i];
        const std::uint32_t* const drawn = this->drops() ? this->draw(task, block, range, i, draws) : nullptr;
        if (of_scores)
          finish_scores(drawn, n, row_p, row_ds, this->is_capped() ? caps + i * stride_ + seen.begin : nullptr);
        if (of_scores) {
          std::fill(ds + i * stride_, row_ds, C(0));
          std::fill(row_ds + n, ds + i * stride_ + tile::padded<C>(count), C(0));
        }
        if (drawn != nullptr) drop(drawn, n, row_p);
      }
      const auto add_to = [&](C* sums) {
        return [=, this](std::int64_t i, std::int64_t j, const tile::Vector<C>& sum) {
          C* const partial = sums + (range.begin + i) * tile::padded<C>(d_) + j;
          tile::store(partial, tile::load(partial) + sum);
        };
      };
      if (to.v.defined())  // dv = pᵀ·dy
        product_within(Factors::transposed_scores(p, stride_, block.count, count, p), count, block.count, dy_rows, d_,
                       this->seeing_rows(block, range), add_to(dv_sums));
      if (to.k.defined())  // dk = scale · dsᵀ·q; p is no longer needed
        product_within(Factors::transposed_scores(ds, stride_, block.count, count, p), count, block.count, q_rows, d_,
                       this->seeing_rows(block, range), add_to(dk_sums));
      if (to.q.defined()) {  // dq = scale · ds·k
        T* const dq = this->template rows_of_queries<T>(to.q, task.sequence, block.head) + row;
        product_within(
            Factors::scores(ds, stride_, block.count, count), block.count, keys, k_rows, d_,
            this->seen_depth(block, range),
            [&](std::int64_t i, std::int64_t j, const tile::Vector<C>& sum) {
              tile::store_as(dq + i * step + j, sum * scale, d_ - j);
            },
            range.begin);
      }
    });
    if (to.q.defined())  // padding
      for (std::int64_t i = queries; i < a_.queries.end(task.sequence) - a_.queries.begin(task.sequence); ++i)
        std::fill_n(this->template rows_of_queries<T>(to.q, task.sequence, task.begin) + i * a_.heads * d_,
                    (task.end - task.begin) * d_, T{});
    if (to.k.defined()) write(task, 0, dk_sums, scale, to.k, to.partial);
    if (to.v.defined()) write(task, 1, dv_sums, C(1), to.v, to.partial);
  }

 private:
  std::int64_t sums() const { return this->longest_ * tile::padded<C>(d_); }

  /// From p ∘ dp, before dropout, in `ds` to the gradients of q·k, of which `n` are seen.
  void finish_scores(const std::uint32_t* drawn, std::int64_t n, const C* p, C* ds, const C* caps) const {
    if (drawn != nullptr) drop(drawn, n, ds);
    tile::softmax_gradient(n, p, ds);
    if (caps == nullptr) return;
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) ds[j] *= C(1) - caps[j] * caps[j];
  }
  void drop(const std::uint32_t* drawn, std::int64_t n, C* values) const {
    const C scale = this->kept_scale();
#pragma omp simd
    for (std::int64_t j = 0; j < n; ++j) values[j] = drawn[j] < this->dropped_below_ ? C(0) : values[j] * scale;
  }
  /// A task's sums [keys, d] for k (`which` 0) or v, to the gradient, or to its part of the partial sums.
  void write(const CausalTask& task, std::int64_t which, const C* sums, C factor, const Tensor& gradient,
             const Tensor& partial) const {
    const std::int64_t width = a_.kv_heads * d_, keys = a_.keys.length(task.sequence);
    T* to = this->template rows_of_keys<T>(gradient, task.sequence, task.kv);
    const std::int64_t place = to - gradient.data<T>();
    for (std::int64_t i = 0; i < keys; ++i) {
      const C* const from = sums + i * tile::padded<C>(d_);
      if (partial.defined()) {
        C* const row = partial.data<C>() + (which * a_.parts + task.part) * gradient.count() + place + i * width;
        for (std::int64_t j = 0; j < d_; ++j) row[j] = factor * from[j];
      } else {
        for (std::int64_t j = 0; j < d_; ++j) to[i * width + j] = static_cast<T>(factor * from[j]);
      }
    }
    if (task.part > 0) return;
    const std::int64_t rows = a_.keys.end(task.sequence) - a_.keys.begin(task.sequence);
    for (std::int64_t i = keys; i < rows; ++i) std::fill_n(to + i * width, d_, T{});  // padding
  }
};

/// Calls `f(task, thread)` for all heads of the sequences. Threads get about equal numbers of products.
template <class F>
void for_each_causal_task(const CausalArguments& a, const F& f) {
  constexpr std::int64_t fixed = 32;  // keys that a query costs beside those that it sees
  std::vector<CausalTask> tasks;
  std::vector<std::int64_t> costs{0};  // [tasks + 1], of the tasks before
  for (std::int64_t i = a.first; i < a.last; ++i)
    for (std::int64_t kv = 0; kv < a.kv_heads; ++kv)
      for (std::int64_t index = 0; index < a.parts; ++index) {
        const Range heads = part(a.group(), index, a.parts);
        const std::int64_t first = kv * a.group();
        tasks.push_back({i, kv, index, first + heads.begin, first + heads.end});
        const std::int64_t queries = a.queries.length(i), keys = a.keys.length(i) - queries / 2;
        costs.push_back(costs.back() + (heads.end - heads.begin) * queries * (keys + fixed));
      }
  const std::int64_t count = threads();
  parallel_tasks(count, [&](std::int64_t share, std::int64_t thread) {
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      const std::int64_t middle = (costs[t] + costs[t + 1]) / 2;
      if (std::min(count - 1, middle * count / costs.back()) == share) f(tasks[t], thread);
    }
  });
}

/// gradient = the sum of the parts, in order, for the rows that are keys. partial: [parts, rows, C].
template <class T>
void add_parts(const CausalArguments& a, std::int64_t which, const Tensor& partial, const Tensor& gradient) {
  using C = Compute<T>;
  if (!gradient.defined()) return;
  const std::int64_t count = gradient.count(), width = gradient.shape().back();
  const C* const sums = partial.data<C>() + which * a.parts * count;
  for (std::int64_t sequence = a.first; sequence < a.last; ++sequence) {
    const std::int64_t begin = (a.keys.begin(sequence) - a.keys.begin(a.first)) * width;
    T* const to = gradient.data<T>();
    parallel_for(a.keys.length(sequence) * width, 16384, [&](std::int64_t from, std::int64_t end) {
      for (std::int64_t i = begin + from; i < begin + end; ++i) {
        C sum = sums[i];
        for (std::int64_t index = 1; index < a.parts; ++index) sum += sums[index * count + i];
        to[i] = static_cast<T>(sum);
      }
    });
  }
}

const RegisterKernel cpu_causal_forward{
    causal_forward, DeviceKind::cpu, [](const CausalArguments& a, const Tensor& y, Tensor&, const Tensor& workspace) {
      tile::with_factors(y.dtype(), [&]<class T, bool pairs>(Type<T>, std::bool_constant<pairs>) {
        const CausalForward<T, pairs> kernel(a);
        for_each_causal_task(a, [&](const CausalTask& task, std::int64_t thread) {
          kernel.run(task, y, workspace.data<Compute<T>>() + thread * workspace.shape()[1]);
        });
      });
    }};
const RegisterKernel cpu_causal_backward{
    causal_backward, DeviceKind::cpu,
    [](const CausalArguments& a, const Tensor& dy, const CausalGradients& to, const Tensor& workspace) {
      tile::with_factors(dy.dtype(), [&]<class T, bool pairs>(Type<T>, std::bool_constant<pairs>) {
        const CausalBackward<T, pairs> kernel(a);
        for_each_causal_task(a, [&](const CausalTask& task, std::int64_t thread) {
          kernel.run(task, dy, to, workspace.data<Compute<T>>() + thread * workspace.shape()[1]);
        });
        if (!to.partial.defined()) return;
        add_parts<T>(a, 0, to.partial, to.k);
        add_parts<T>(a, 1, to.partial, to.v);
      });
    }};

}  // namespace

std::int64_t causal_forward_workspace(const CausalArguments& a, DType dtype, Device device, Tensor& log_sums) {
  if (computes_on_cuda(device)) {
    if (const auto form = dense_form(a); form.has_value())
      log_sums = take_dense_forward_memory(*form, dtype, device);
    return 0;
  }
  return tile::with_factors(dtype, [&]<class T, bool pairs>(Type<T>, std::bool_constant<pairs>) {
    return CausalForward<T, pairs>(a).workspace();
  });
}
std::int64_t causal_backward_workspace(const CausalArguments& a, DType dtype, Device device) {
  if (computes_on_cuda(device)) {
    if (const auto form = dense_form(a); !form.has_value() || !take_dense_backward_memory(*form, dtype, device))
      take_attention_memory((a.last - a.first) * a.heads, a.queries.longest(), a.last - a.first, device);
    return 0;
  }
  return tile::with_factors(dtype, [&]<class T, bool pairs>(Type<T>, std::bool_constant<pairs>) {
    return CausalBackward<T, pairs>(a).workspace();
  });
}

}  // namespace lacuna
