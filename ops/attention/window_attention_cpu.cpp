// Window attention on the CPU. A task is one window for one head: its q, k and v are gathered into cache once.
#include "ops/attention/window_attention_kernels.h"

#include "core/parallel.h"
#include "core/planned_device.h"
#include "ops/attention/attention_factors.h"
#include "ops/attention/window_attention_cuda.h"
#include "ops/attention/window_places.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace lacuna {
namespace {

using tile::Arena;
using tile::lanes;
using tile::Vector;

constexpr double masked = -100;  // added to scores between regions

/// Part of the rolled and padded axis that place `place` belongs to: tokens of one window in different parts were no
/// neighbours.
int region(std::int64_t place, std::int64_t padded, std::int64_t window, std::int64_t shift) {
  if (shift == 0 || place < padded - window) return 0;
  return place < padded - shift ? 1 : 2;
}

/// The table's row for a query and a key at these places of a window. The keys of one row of the window have
/// consecutive rows of the table, in descending order.
std::int64_t table_row(const WindowArguments& a, std::int64_t query, std::int64_t key) {
  const std::int64_t rows = query / a.window_width - key / a.window_width + a.window_height - 1;
  const std::int64_t columns = query % a.window_width - key % a.window_width + a.window_width - 1;
  return rows * (2 * a.window_width - 1) + columns;
}

/// The tokens of one window. Queries are the tokens of the map, in order; keys are all places of the window.
template <class C>
struct Window {
  std::vector<std::int64_t> token;  // [window] of the map, by place in the window; -1: a pad
  std::vector<std::int64_t> query;  // [count] places of the queries
  std::vector<C> region;            // [window]
  std::int64_t count = 0;           // queries
  bool mixed = false;               // whether the places have several regions

  explicit Window(const WindowArguments& a)
      : token(static_cast<std::size_t>(a.window())), query(token.size()), region(token.size()) {}

  void set(const WindowArguments& a, std::int64_t number) {
    const std::int64_t top = number / a.across() * a.window_height, left = number % a.across() * a.window_width;
    const std::int64_t bottom = a.down() * a.window_height, right = a.across() * a.window_width;  // padded extents
    count = 0;
    for (std::int64_t i = 0; i < a.window_height; ++i)
      for (std::int64_t j = 0; j < a.window_width; ++j) {
        const std::int64_t y = top + i, x = left + j;
        const auto place = static_cast<std::size_t>(i * a.window_width + j);
        region[place] = static_cast<C>(3 * lacuna::region(y, bottom, a.window_height, a.shift_down) +
                                       lacuna::region(x, right, a.window_width, a.shift_right));
        token[place] = token_of(a, y, x);
        if (token[place] >= 0) query[static_cast<std::size_t>(count++)] = static_cast<std::int64_t>(place);
      }
    mixed = std::ranges::any_of(region, [&](C other) { return other != region.front(); });
  }
};

/// Shared state of both passes: the problem, a thread's arrays, and the probabilities. Tokens are of T, gathered ones
/// of `Token`: T, or its compute type.
template <class T, class Token>
class Pass {
 protected:
  using C = Compute<T>;
  using Factors = tile::Factors<Token>;
  using Element = typename Factors::Element;
  static_assert(sizeof(Element) == sizeof(C));  // one arena holds both

  explicit Pass(const WindowArguments& a)
      : a_(a), d_(a.head_dim), length_(a.window()), stride_(tile::padded<C>(length_)), width_(a.heads * d_) {
    if (stride_ * static_cast<std::int64_t>(sizeof(C)) % 1024 == 0) stride_ += lanes<C>;  // spread over cache sets
  }

  /// Arrays of one thread.
  struct Arrays {
    C* bias;             // [window, stride] · log2(e), of one head
    C* column;           // [table_rows] · log2(e), of one head
    Token *q, *k, *v;    // [window, d], gathered; q and k are divided by their norms if cosines are asked for
    C *q_norm, *k_norm;  // [window] 1 / norm
    Element* keys;       // kᵀ in panels, [d, window]
    Element* copy;       // [window, d] of a left factor
    C* scores;           // [window, stride]
    C* inverse;          // [window] of the denominators
  };
  Arrays take(Arena<C>& arena) const {
    Arrays to{};
    to.bias = arena.take(length_ * stride_);
    to.column = arena.take(a_.table_rows());
    for (Token** const rows : {&to.q, &to.k, &to.v}) *rows = take_tokens(arena);
    for (C** const column : {&to.q_norm, &to.k_norm, &to.inverse}) *column = arena.take(length_ + lanes<C>);
    to.keys = take_factor(arena, panels());
    to.copy = take_factor(arena, left_copy());
    to.scores = arena.take(scores());
    return to;
  }
  std::int64_t arrays() const {
    const auto rounded = Arena<C>::rounded;
    return rounded(length_ * stride_) + rounded(a_.table_rows()) + 3 * rounded(tokens()) +
           3 * rounded(length_ + lanes<C>) + rounded(panels()) + rounded(left_copy()) + rounded(scores());
  }
  /// Elements of C that have space for gathered tokens [window, d].
  std::int64_t tokens() const {
    constexpr auto each = static_cast<std::int64_t>(sizeof(C) / sizeof(Token));
    return (length_ * d_ + each - 1) / each;
  }
  Token* take_tokens(Arena<C>& arena) const { return reinterpret_cast<Token*>(arena.take(tokens())); }
  static Element* take_factor(Arena<C>& arena, std::int64_t count) {
    return reinterpret_cast<Element*>(arena.take(count));
  }
  std::int64_t panels() const { return stride_ * Factors::depth(d_); }
  std::int64_t rows_panels() const { return Factors::depth(length_) * tile::padded<C>(d_); }
  std::int64_t left_copy() const { return is_half<Token> ? length_ * Factors::depth(d_) : 0; }
  std::int64_t scores() const { return length_ * stride_ + tile::rows; }  // a transposed factor reads past its end

  void expand_bias(std::int64_t head, const Arrays& to) const {
    const C* const table = a_.table.data<C>();
    for (std::int64_t row = 0; row < a_.table_rows(); ++row)
      to.column[row] = table[row * a_.heads + head] * static_cast<C>(std::numbers::log2e);
    for (std::int64_t i = 0; i < length_; ++i)
      for (std::int64_t key = 0; key < length_; key += a_.window_width) {
        const C* const from = to.column + table_row(a_, i, key);
        C* const row = to.bias + i * stride_ + key;
#pragma omp simd
        for (std::int64_t j = 0; j < a_.window_width; ++j) row[j] = from[-j];
      }
  }
  C scale_of(std::int64_t head) const {
    if (!a_.logit_scale.defined()) return static_cast<C>(a_.scale);
    return std::exp(std::min(a_.logit_scale.data<C>()[head], log_of_greatest()));
  }
  static C log_of_greatest() { return std::log(C(100)); }

  /// Rows [window, d] of part 0, 1 or 2 (q, k, v) of the window's tokens; those of pads are `pad`'s.
  void gather(const Window<C>& window, std::int64_t image, std::int64_t head, std::int64_t part, Token* to) const {
    const std::int64_t column = part * width_ + head * d_;
    const T* const from = a_.qkv.data<T>() + image * a_.height * a_.width * 3 * width_ + column;
    const C* const pad = a_.pad.defined() ? a_.pad.data<C>() + column : nullptr;
    for (std::int64_t i = 0; i < length_; ++i, to += d_) {
      const std::int64_t token = window.token[static_cast<std::size_t>(i)];
      if (token < 0) {
        for (std::int64_t j = 0; j < d_; ++j) to[j] = static_cast<Token>(pad != nullptr ? pad[j] : C(0));
        continue;
      }
      copy_row(from + token * 3 * width_, to);
    }
  }
  void copy_row(const T* row, Token* to) const {
    if constexpr (std::is_same_v<T, Token>) {
      std::copy_n(row, d_, to);
    } else {
#pragma GCC ivdep
      for (std::int64_t j = 0; j < d_; ++j) to[j] = to_compute(row[j]);
    }
  }
  /// Divides rows by their norms, as torch.nn.functional.normalize does.
  void normalise(C* rows, C* inverse_norms) const {
    constexpr C least = C(1e-12);
    for (std::int64_t i = 0; i < length_; ++i, rows += d_) {
      C sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < d_; ++j) sum += rows[j] * rows[j];
      inverse_norms[i] = C(1) / std::max(std::sqrt(sum), least);
#pragma omp simd
      for (std::int64_t j = 0; j < d_; ++j) rows[j] *= inverse_norms[i];
    }
  }
  /// Moves the rows of the queries, [window, d], to the front: [count, d].
  void keep_queries(const Window<C>& window, Token* rows) const {
    for (std::int64_t i = 0; i < window.count; ++i)
      if (const std::int64_t place = window.query[static_cast<std::size_t>(i)]; place != i)
        std::copy_n(rows + place * d_, d_, rows + i * d_);
  }
  /// Fills q, k and v, and the probabilities [count, window] but for the factors `inverse` [count].
  void probabilities(const Window<C>& window, std::int64_t image, std::int64_t head, const Arrays& to) const {
    gather(window, image, head, 0, to.q);
    gather(window, image, head, 1, to.k);
    gather(window, image, head, 2, to.v);
    if constexpr (std::is_same_v<Token, C>) {
      if (a_.logit_scale.defined()) {
        normalise(to.q, to.q_norm);
        normalise(to.k, to.k_norm);
      }
    }
    keep_queries(window, to.q);
    Factors::pack_transposed(to.k, d_, d_, length_, to.keys);
    const C scale = scale_of(head) * static_cast<C>(std::numbers::log2e);
    tile::product(Factors::tokens(to.q, d_, window.count, d_, to.copy), window.count, Factors::depth(d_), to.keys,
                  length_, [&](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
                    const std::int64_t place = window.query[static_cast<std::size_t>(i)];
                    tile::store(to.scores + i * stride_ + j, sum * scale + tile::load(to.bias + place * stride_ + j));
                  });
    if (window.mixed) mask(window, to.scores);
    tile::softmax_rows(to.scores, stride_, window.count, length_, to.inverse);
  }
  void mask(const Window<C>& window, C* scores) const {
    const C* const regions = window.region.data();
    const C penalty = static_cast<C>(masked * std::numbers::log2e);
    for (std::int64_t i = 0; i < window.count; ++i, scores += stride_) {
      const C own = regions[window.query[static_cast<std::size_t>(i)]];
#pragma omp simd
      for (std::int64_t j = 0; j < length_; ++j) scores[j] += regions[j] == own ? C(0) : penalty;
    }
  }

  const WindowArguments& a_;
  std::int64_t d_, length_, stride_, width_;
};

/// The first window of a part in this run, by its number in the batch.
std::int64_t first_window(const WindowArguments& a, std::int64_t part) {
  const std::int64_t before = a.first * a.windows();
  return before + (part + a.parts - before % a.parts) % a.parts;
}

std::int64_t end_of_windows(const WindowArguments& a) { return (a.first + a.images) * a.windows(); }

/// Calls `f(head, part, thread)` for the pairs of a head and a part that has a window. Parts come last: a run that has
/// fewer windows than parts still gives every thread a share.
template <class F>
void for_each_pair(const WindowArguments& a, const F& f) {
  parallel_tasks(a.heads * a.parts, [&](std::int64_t pair, std::int64_t thread) {
    const std::int64_t head = pair / a.parts, part = pair % a.parts;
    if (first_window(a, part) < end_of_windows(a)) f(head, part, thread);
  });
}

/// Calls `f(image, window)` for the windows of a part in ascending order; `image` counts from the run's first.
template <class F>
void for_each_window(const WindowArguments& a, std::int64_t part, const F& f) {
  for (std::int64_t number = first_window(a, part); number < end_of_windows(a); number += a.parts)
    f(number / a.windows() - a.first, number % a.windows());
}

template <class T, class Token>
class Forward : Pass<T, Token> {
  using Base = Pass<T, Token>;
  using Base::a_, Base::d_, Base::length_, Base::stride_, Base::width_;
  using typename Base::C, typename Base::Element, typename Base::Factors;

 public:
  explicit Forward(const WindowArguments& a) : Base(a) {}
  std::int64_t workspace() const { return this->arrays() + Arena<C>::rounded(this->rows_panels()); }

  void run(T* y, std::int64_t head, std::int64_t part, C* memory) const {
    Arena<C> arena(memory);
    const auto arrays = this->take(arena);
    Element* const values = this->take_factor(arena, this->rows_panels());  // v in panels, [window, d]
    Window<C> window(a_);
    this->expand_bias(head, arrays);
    for_each_window(a_, part, [&](std::int64_t image, std::int64_t number) {
      window.set(a_, number);
      this->probabilities(window, image, head, arrays);
      Factors::pack(arrays.v, d_, length_, d_, values);
      T* const to = y + image * a_.height * a_.width * width_ + head * d_;
      tile::product(Factors::scores(arrays.scores, stride_, window.count, length_), window.count,
                    Factors::depth(length_), values, d_, [&](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
                      const std::int64_t place = window.query[static_cast<std::size_t>(i)];
                      const std::int64_t token = window.token[static_cast<std::size_t>(place)];
                      tile::store_as(to + token * width_ + j, sum * arrays.inverse[i], d_ - j);
                    });
    });
  }
};

template <class T, class Token>
class Backward : Pass<T, Token> {
  using Base = Pass<T, Token>;
  using Base::a_, Base::d_, Base::length_, Base::stride_, Base::width_;
  using typename Base::C, typename Base::Element, typename Base::Factors;

 public:
  explicit Backward(const WindowArguments& a, const WindowGradients& to) : Base(a), to_(to) {}

  std::int64_t workspace() const {
    const auto rounded = Arena<C>::rounded;
    return this->arrays() + rounded(this->panels()) + 3 * rounded(this->rows_panels()) + rounded(this->scores()) +
           rounded(this->tokens()) + 2 * rounded(length_ * d_);
  }

  void run(const T* dy, std::int64_t head, std::int64_t part, C* memory) const {
    Arena<C> arena(memory);
    const auto arrays = this->take(arena);
    Element* const values = this->take_factor(arena, this->panels());        // vᵀ in panels, [d, window]
    Element* const k_rows = this->take_factor(arena, this->rows_panels());   // panels, [window, d]
    Element* const q_rows = this->take_factor(arena, this->rows_panels());   // panels, [count, d]
    Element* const dy_rows = this->take_factor(arena, this->rows_panels());  // panels, [count, d]
    C* const ds = arena.take(this->scores());                                // [count, stride]: gradients of the scores
    Token* const dy_own = this->take_tokens(arena);                          // [count, d]
    C* const dq = arena.take(length_ * d_);                                  // [count, d]
    C* const gradient = arena.take(length_ * d_);                            // [window, d] of k or v
    Window<C> window(a_);
    this->expand_bias(head, arrays);
    const bool tokens = to_.qkv.defined(), keys = tokens || to_.pad_sums.defined();
    const C scale = this->scale_of(head);
    for_each_window(a_, part, [&](std::int64_t image, std::int64_t number) {
      window.set(a_, number);
      this->probabilities(window, image, head, arrays);
      gather_dy(dy, window, image, head, dy_own);
      Factors::pack_transposed(arrays.v, d_, d_, length_, values);
      // ds = p ∘ (dp − Σ p ∘ dp), dp = dy·vᵀ
      tile::product(Factors::tokens(dy_own, d_, window.count, d_, arrays.copy), window.count, Factors::depth(d_),
                    values, length_, [&](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
                      C* const p = arrays.scores + i * stride_ + j;
                      const Vector<C> probability = tile::load(p) * arrays.inverse[i];
                      tile::store(p, probability);
                      tile::store(ds + i * stride_ + j, probability * sum);
                    });
      for (std::int64_t i = 0; i < window.count; ++i)
        tile::softmax_gradient(length_, arrays.scores + i * stride_, ds + i * stride_);
      if (to_.table_sums.defined()) add_scores(window, ds, head, part);
      if (keys) {  // dv = pᵀ·dy
        Factors::pack(dy_own, d_, window.count, d_, dy_rows);
        product_of_keys(window, arrays.scores, arrays.scores, dy_rows, C(1), gradient);
        scatter(window, image, head, part, 2, gradient);
        // dk = scale · dsᵀ·q; p is no longer needed
        Factors::pack(arrays.q, d_, window.count, d_, q_rows);
        product_of_keys(window, ds, arrays.scores, q_rows, scale, gradient);
        if (a_.logit_scale.defined()) through_norm(arrays.k, arrays.k_norm, length_, gradient);
        scatter(window, image, head, part, 1, gradient);
      }
      if (tokens || to_.scale_sums.defined()) {  // dq = scale · ds·k
        Factors::pack(arrays.k, d_, length_, d_, k_rows);
        tile::product(Factors::scores(ds, stride_, window.count, length_), window.count, Factors::depth(length_),
                      k_rows, d_, [&](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
                        tile::store_as(dq + i * d_ + j, sum * scale, d_ - j);
                      });
        if (to_.scale_sums.defined()) add_to_scale(arrays.q, dq, window.count, head, part);
        if (tokens) scatter_queries(window, image, head, arrays, dq);
      }
    });
  }

 private:
  void gather_dy(const T* dy, const Window<C>& window, std::int64_t image, std::int64_t head, Token* to) const {
    const T* const from = dy + image * a_.height * a_.width * width_ + head * d_;
    for (std::int64_t i = 0; i < window.count; ++i, to += d_)
      this->copy_row(from + token_of(window, window.query[static_cast<std::size_t>(i)]) * width_, to);
  }
  static std::int64_t token_of(const Window<C>& window, std::int64_t place) {
    return window.token[static_cast<std::size_t>(place)];
  }
  /// factor · scoresᵀ [window, count] times panels [count, d]. `memory` [count, stride] may be the scores' own.
  void product_of_keys(const Window<C>& window, const C* scores, C* memory, const Element* panels, C factor,
                       C* to) const {
    tile::product(Factors::transposed_scores(scores, stride_, window.count, length_, memory), length_,
                  Factors::depth(window.count), panels, d_, [&](std::int64_t i, std::int64_t j, const Vector<C>& sum) {
                    tile::store_as(to + i * d_ + j, sum * factor, d_ - j);
                  });
  }
  void add_scores(const Window<C>& window, const C* ds, std::int64_t head, std::int64_t part) const {
    C* const sums = to_.table_sums.data<C>() + (part * a_.heads + head) * a_.table_rows();
    for (std::int64_t i = 0; i < window.count; ++i) {
      const C* from = ds + i * stride_;
      for (std::int64_t key = 0; key < length_; key += a_.window_width, from += a_.window_width) {
        C* const to = sums + table_row(a_, window.query[static_cast<std::size_t>(i)], key);
#pragma omp simd
        for (std::int64_t j = 0; j < a_.window_width; ++j) to[-j] += from[j];
      }
    }
  }
  /// d logit_scale = Σ q̂·dq̂ where the scale is below its bound.
  void add_to_scale(const Token* q, const C* dq, std::int64_t count, std::int64_t head, std::int64_t part) const {
    if (a_.logit_scale.template data<C>()[head] > this->log_of_greatest()) return;
    C sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < count * d_; ++i) sum += to_compute(q[i]) * dq[i];
    to_.scale_sums.data<C>()[part * a_.heads + head] += sum;
  }
  /// Gradients of unit vectors become those of the vectors: (g − x̂·(x̂·g)) / |x|.
  void through_norm(const Token* unit, const C* inverse_norms, std::int64_t count, C* gradients) const {
    for (std::int64_t i = 0; i < count; ++i, unit += d_, gradients += d_) {
      C along = 0;
#pragma omp simd reduction(+ : along)
      for (std::int64_t j = 0; j < d_; ++j) along += to_compute(unit[j]) * gradients[j];
#pragma omp simd
      for (std::int64_t j = 0; j < d_; ++j)
        gradients[j] = (gradients[j] - to_compute(unit[j]) * along) * inverse_norms[i];
    }
  }
  void scatter_queries(const Window<C>& window, std::int64_t image, std::int64_t head,
                       const typename Base::Arrays& arrays, C* dq) const {
    if (a_.logit_scale.defined()) {
      for (std::int64_t i = 0; i < window.count; ++i)
        arrays.q_norm[i] = arrays.q_norm[window.query[static_cast<std::size_t>(i)]];
      through_norm(arrays.q, arrays.q_norm, window.count, dq);
    }
    T* const to = rows_of(image, head, 0);
    for (std::int64_t i = 0; i < window.count; ++i, dq += d_)
      write(dq, to + token_of(window, window.query[static_cast<std::size_t>(i)]) * 3 * width_);
  }
  /// Writes the gradients of keys or values [window, d]; those of pads are added to the part's sums.
  void scatter(const Window<C>& window, std::int64_t image, std::int64_t head, std::int64_t part, std::int64_t which,
               const C* gradients) const {
    T* const to = to_.qkv.defined() ? rows_of(image, head, which) : nullptr;
    for (std::int64_t i = 0; i < length_; ++i, gradients += d_) {
      const std::int64_t token = token_of(window, i);
      if (token >= 0) {
        if (to != nullptr) write(gradients, to + token * 3 * width_);
      } else if (to_.pad_sums.defined()) {
        C* const sums = to_.pad_sums.data<C>() + (3 * part + which) * width_ + head * d_;
#pragma omp simd
        for (std::int64_t j = 0; j < d_; ++j) sums[j] += gradients[j];
      }
    }
  }
  T* rows_of(std::int64_t image, std::int64_t head, std::int64_t which) const {
    return to_.qkv.data<T>() + image * a_.height * a_.width * 3 * width_ + which * width_ + head * d_;
  }
  void write(const C* from, T* to) const {
#pragma GCC ivdep
    for (std::int64_t j = 0; j < d_; ++j) to[j] = static_cast<T>(from[j]);
  }

  const WindowGradients& to_;
};

/// Calls `f(Type<T>{}, Type<Token>{})`. Tokens of bf16 are multiplied in bf16; cosine attention multiplies in f32.
template <class F>
decltype(auto) with_token_types(const WindowArguments& a, DType dtype, const F& f) {
  return with_float_type(dtype, [&]<class T>(Type<T> type) {
    if constexpr (std::is_same_v<T, bf16> && tile::has_pairs) {
      if (tile::multiplies_pairs() && !a.logit_scale.defined()) return f(type, type);
    }
    return f(type, Type<Compute<T>>{});
  });
}

void forward(const WindowArguments& a, const Tensor& y, const Tensor& workspace) {
  with_token_types(a, y.dtype(), [&]<class T, class Token>(Type<T>, Type<Token>) {
    using C = Compute<T>;
    const Forward<T, Token> kernel(a);
    for_each_pair(a, [&](std::int64_t head, std::int64_t part, std::int64_t thread) {
      kernel.run(y.data<T>(), head, part, workspace.data<C>() + thread * workspace.shape()[1]);
    });
  });
}

void backward(const WindowArguments& a, const Tensor& dy, const WindowGradients& to, const Tensor& workspace) {
  with_token_types(a, dy.dtype(), [&]<class T, class Token>(Type<T>, Type<Token>) {
    using C = Compute<T>;
    const Backward<T, Token> kernel(a, to);
    for_each_pair(a, [&](std::int64_t head, std::int64_t part, std::int64_t thread) {
      kernel.run(dy.data<T>(), head, part, workspace.data<C>() + thread * workspace.shape()[1]);
    });
  });
}

void sum_table(const Tensor& table_sums, const Tensor& table_gradient) {
  with_compute_type(table_gradient.dtype(), [&]<class C>(Type<C>) {
    const std::int64_t parts = table_sums.shape()[0], heads = table_sums.shape()[1], rows = table_sums.shape()[2];
    const C* const from = table_sums.data<C>();
    C* const to = table_gradient.data<C>();
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t head = 0; head < heads; ++head) {
        C sum = 0;
        for (std::int64_t part = 0; part < parts; ++part) sum += from[(part * heads + head) * rows + row];
        to[row * heads + head] = sum;
      }
  });
}

const RegisterKernel cpu_forward{window_attention_forward, DeviceKind::cpu, forward};
const RegisterKernel cpu_backward{window_attention_backward, DeviceKind::cpu, backward};
const RegisterKernel cpu_sum_table{window_attention_sum_table, DeviceKind::cpu, sum_table};

}  // namespace

Shape window_attention_forward_workspace(const WindowArguments& a, DType dtype, Device device) {
  if (computes_on_cuda(device)) return {0};
  return with_token_types(a, dtype, [&]<class T, class Token>(Type<T>, Type<Token>) {
    return Shape{threads(), Forward<T, Token>(a).workspace()};
  });
}
Shape window_attention_backward_workspace(const WindowArguments& a, DType dtype, Device device) {
  if (computes_on_cuda(device))
    return {2, a.window() > cuda::most_tile_tokens ? a.images * a.windows() * a.heads : 0, a.window()};
  return with_token_types(a, dtype, [&]<class T, class Token>(Type<T>, Type<Token>) {
    return Shape{threads(), Backward<T, Token>(a, {}).workspace()};
  });
}

}  // namespace lacuna
