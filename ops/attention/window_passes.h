// Parts that kernels of window attention share, for .cu files: the places of a window, its rows, and the products of
// one of its tiles. A block has a tile of one window for one head: rolling, padding and cutting are address arithmetic,
// done once a block for the window's places.
#pragma once

#include "ops/attention/attention_tiles.h"
#include "ops/attention/window_attention_cuda.h"
#include "ops/attention/window_places.h"

namespace lacuna::cuda::windows {

inline constexpr float masked = -100;                       // added to scores between regions
inline constexpr int most = most_window_tokens, packs = 1;  // head dimensions up to 64

LACUNA_DEVICE inline int larger(int a, int b) { return a > b ? a : b; }
LACUNA_DEVICE inline int smaller(int a, int b) { return a < b ? a : b; }

/// The places of one window.
struct Places {
  std::int32_t token[most];                            // of the map; -1: a pad
  std::uint8_t row[most], column[most], region[most];  // windows have fewer than 256 rows and columns
  float q_norm[most], k_norm[most];                    // 1 / norm, with cosines
};

/// Part of the rolled and padded axis that a place belongs to: tokens of one window in different parts were no
/// neighbours.
LACUNA_DEVICE inline int region_of(std::int64_t place, std::int64_t padded, std::int64_t window, std::int64_t shift) {
  if (shift == 0 || place < padded - window) return 0;
  return place < padded - shift ? 1 : 2;
}

/// Rows of q, k, v or dy of a window's places for one head.
template <class T>
struct WindowRows {
  const T* data;     // of the image, from the head's first column on
  const float* pad;  // of the pads, or null: zeros
  const std::int32_t* token;
  const float* norms;  // null: as they are
  std::int64_t stride, count;
  LACUNA_DEVICE float value(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = token[row];
    const float raw = at >= 0 ? to_compute(data[at * stride + column]) : pad != nullptr ? pad[column] : 0.0F;
    return norms == nullptr ? raw : raw * norms[row];
  }
  LACUNA_DEVICE Pack<T, 8> eight(std::int64_t row, std::int64_t column, std::int64_t dim) const {
    Pack<T, 8> pack{};
    if (token[row] < 0) {
      for (int i = 0; pad != nullptr && i < 8 && column + i < dim; ++i)
        pack[i] = static_cast<T>(value(row, column + i));
      return pack;
    }
    pack = eight_of(data + token[row] * stride, column, dim);
    for (int i = 0; norms != nullptr && i < 8; ++i) pack[i] = static_cast<T>(to_compute(pack[i]) * norms[row]);
    return pack;
  }
};

struct WindowTask {
  std::int64_t image, window, head, number;  // number: of the window and head in this call
};

template <class T>
struct WindowPass {
  static constexpr int threads = block_threads, blocks_together = tiles_together<T, packs>;
  struct Shared {
    Tiles<T, packs> tiles;
    Places places;
    float partial[across][tile];
  };
  WindowProblem problem;

  LACUNA_DEVICE std::int64_t width() const { return problem.heads * problem.head_dim; }
  /// Places of a window. They are counted in int, as 64 bits would take twice the registers.
  LACUNA_DEVICE int count() const { return static_cast<int>(problem.window()); }
  template <class B>
  LACUNA_DEVICE WindowTask task_of(const B& block, std::int64_t tiles) const {
    const std::int64_t number = block.index() / tiles, window = number / problem.heads;
    return {window / problem.windows(), window % problem.windows(), number % problem.heads, number};
  }
  LACUNA_DEVICE float scale_of(std::int64_t head) const {
    if (problem.logit_scale == nullptr) return problem.scale;
    return fminf(expf(problem.logit_scale[head]), 100.0F);
  }
  /// Part 0, 1 or 2 of qkv: q, k or v.
  template <class B>
  LACUNA_DEVICE WindowRows<T> rows_of(const B& block, const WindowTask& task, int part) const {
    const std::int64_t column = part * width() + task.head * problem.head_dim, stride = 3 * width();
    return {static_cast<const T*>(problem.qkv) + task.image * problem.height * problem.width * stride + column,
            problem.pad == nullptr ? nullptr : problem.pad + column,
            block.shared().places.token,
            nullptr,
            stride,
            problem.window()};
  }
  /// With cosines q and k divided by their norms.
  template <class B>
  LACUNA_DEVICE WindowRows<T> units_of(const B& block, const WindowTask& task, int part) const {
    const auto& places = block.shared().places;
    WindowRows<T> rows = rows_of(block, task, part);
    if (problem.logit_scale != nullptr) rows.norms = part == 0 ? places.q_norm : places.k_norm;
    return rows;
  }
  template <class B>
  LACUNA_DEVICE void set_places(const B& block, const WindowTask& task) const {
    const WindowProblem& a = problem;
    auto& places = block.shared().places;
    const std::int64_t top = task.window / a.across() * a.window_height;
    const std::int64_t left = task.window % a.across() * a.window_width;
    block.sync();  // all are done with the last window
    for (int i = block.thread(); i < a.window(); i += threads) {
      const std::int64_t row = i / a.window_width, column = i % a.window_width, y = top + row, x = left + column;
      places.row[i] = static_cast<std::uint8_t>(row);
      places.column[i] = static_cast<std::uint8_t>(column);
      places.region[i] =
          static_cast<std::uint8_t>(3 * region_of(y, a.down() * a.window_height, a.window_height, a.shift_down) +
                                    region_of(x, a.across() * a.window_width, a.window_width, a.shift_right));
      places.token[i] = static_cast<std::int32_t>(token_of(a, y, x));
    }
    block.sync();
    if (a.logit_scale == nullptr) return;
    for (int part = 0; part < 2; ++part) {
      const WindowRows<T> rows = rows_of(block, task, part);
      for (int i = block.thread(); i < a.window(); i += threads) {
        float sum = 0;
        for (std::int64_t c = 0; c < a.head_dim; ++c) {
          const float v = rows.value(i, c);
          sum += v * v;
        }
        (part == 0 ? places.q_norm : places.k_norm)[i] = 1 / fmaxf(sqrtf(sum), 1e-12F);
      }
    }
    block.sync();
  }
  /// The bias of a query and a key, which depends on how they lie to each other.
  LACUNA_DEVICE float bias_of(const Places& places, std::int64_t head, int query, int key) const {
    const auto height = static_cast<int>(problem.window_height), width = static_cast<int>(problem.window_width);
    const int row = (places.row[query] - places.row[key] + height - 1) * (2 * width - 1) + places.column[query] -
                    places.column[key] + width - 1;
    return problem.table[row * static_cast<int>(problem.heads) + static_cast<int>(head)];
  }
  /// From q·k of queries `query` + i and keys `key` + 16·j to scale · q·k, or that of their cosines.
  template <class B>
  LACUNA_DEVICE void scale(const B& block, const WindowTask& task, int query, int key, Scores& scores) const {
    const auto& places = block.shared().places;
    const float factor = scale_of(task.head);
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const int q = query + i, k = key + across * j;
        scores[i][j] *= factor;
        if (problem.logit_scale != nullptr && q < count() && k < count())
          scores[i][j] *= places.q_norm[q] * places.k_norm[k];
      }
  }
  /// From scale · q·k to scores to base 2; -inf beyond the window.
  template <class B>
  LACUNA_DEVICE void finish(const B& block, const WindowTask& task, int query, int key, Scores& scores) const {
    const auto& places = block.shared().places;
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const int q = query + i, k = key + across * j;
        if (k >= count())
          scores[i][j] = -INFINITY;
        else if (q < count())
          scores[i][j] = log2e * (scores[i][j] + bias_of(places, task.head, q, k) +
                                  (places.region[q] == places.region[k] ? 0 : masked));
      }
  }
  /// Writes factor[i] · sums to the columns from `to` on of the tokens of places `first` + i.
  template <class B>
  LACUNA_DEVICE void write(const B& block, T* to, std::int64_t stride, int first, const float (&factor)[each],
                           const Sums<packs>& sums) const {
    const auto& places = block.shared().places;
    for_sums<packs>(block, problem.head_dim, sums, [&](int i, std::int64_t column, float sum) {
      if (first + i >= count() || places.token[first + i] < 0) return;
      to[places.token[first + i] * stride + column] = static_cast<T>(factor[i] * sum);
    });
  }
};

/// Gradients of unit vectors become those of the vectors: (g - x̂·(x̂·g)) / |x|. `unit`: rows from `first` + 4·y + i on.
/// Returns the thread's part of Σ x̂·g.
template <class B, class Rows>
LACUNA_DEVICE float through_norm(const B& block, std::int64_t dim, const Rows& unit, int first, Sums<packs>& sums) {
  const int own = first + own_row(block);
  float along[each] = {};
  for_sums<packs>(block, dim, sums, [&](int i, std::int64_t column, float sum) {
    if (own + i < unit.count) along[i] += sum * unit.value(own + i, column);
  });
  float own_part = 0;
#pragma unroll
  for (int i = 0; i < each; ++i) {
    own_part += along[i];
    along[i] = sum_of_lanes<across>(along[i]);
  }
  const int x = x_of(block);
#pragma unroll
  for (int i = 0; i < each; ++i)
#pragma unroll
    for (int p = 0; p < packs; ++p)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = tile * p + 4 * x + e;
        if (own + i < unit.count && column < dim)
          sums[i][p][e] = (sums[i][p][e] - along[i] * unit.value(own + i, column)) * unit.norms[own + i];
      }
  return own_part;
}

template <class T>
struct WindowBackwardPass : WindowPass<T> {
  const T* dy;
  float *log_sums, *products;  // [images · windows · heads, window], as RowStatistics of attention.cu

  template <class B>
  LACUNA_DEVICE WindowRows<T> rows_of_dy(const B& block, const WindowTask& task) const {
    const WindowProblem& a = this->problem;
    return {dy + task.image * a.height * a.width * this->width() + task.head * a.head_dim,
            nullptr,
            block.shared().places.token,
            nullptr,
            this->width(),
            a.window()};
  }
  /// p and ds = p ∘ (dp - Σ p ∘ dp) with dp = dy·vᵀ, of queries `query` on and keys `key` on; zero for pads as queries.
  /// `along` takes Σ ds ∘ (scale · q·k) of the thread's elements.
  template <class B>
  LACUNA_DEVICE void scores_of(const B& block, const WindowTask& task, int query, int key, Scores& p, Scores& ds,
                               float& along) const {
    const WindowProblem& a = this->problem;
    const int own = query + own_row(block);
    const int x = x_of(block);
    multiply(block, block.shared().tiles, a.head_dim, this->rows_of(block, task, 0), query,
             this->rows_of(block, task, 1), key, p);
    multiply(block, block.shared().tiles, a.head_dim, rows_of_dy(block, task), query, this->rows_of(block, task, 2),
             key, ds);
    this->scale(block, task, own, key + x, p);
    Scores scaled;
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int j = 0; j < each; ++j) scaled[i][j] = p[i][j];
    this->finish(block, task, own, key + x, p);
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const bool is_query = own + i < this->count() && block.shared().places.token[own + i] >= 0;
      const std::int64_t row = task.number * a.window() + own + i;
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const bool there = is_query && key + x + across * j < this->count();
        p[i][j] = there ? exp2f(p[i][j] - log_sums[row]) : 0;
        ds[i][j] = there ? p[i][j] * (ds[i][j] - products[row]) : 0;
        along += there ? ds[i][j] * scaled[i][j] : 0;
      }
    }
  }
  /// Writes factor · sums to q, k or v of the places from `first` on.
  template <class B>
  LACUNA_DEVICE void write_part(const B& block, const WindowTask& task, int part, int first, float factor,
                                const Sums<packs>& sums, T* dqkv) const {
    const WindowProblem& a = this->problem;
    const std::int64_t stride = 3 * this->width();
    const float factors[each] = {factor, factor, factor, factor};
    T* const to = dqkv + task.image * a.height * a.width * stride + part * this->width() + task.head * a.head_dim;
    this->write(block, to, stride, first + own_row(block), factors, sums);
  }
  /// dq / scale += ds·k.
  template <class B>
  LACUNA_DEVICE void add_queries(const B& block, const WindowTask& task, int key, const Scores& ds,
                                 Sums<packs>& dq) const {
    accumulate<false>(block, block.shared().tiles, this->problem.head_dim, ds, this->units_of(block, task, 1), key, dq);
  }
  /// Returns the thread's part of Σ q̂·dq̂ / scale, with cosines.
  template <class B>
  LACUNA_DEVICE float finish_queries(const B& block, const WindowTask& task, int first, Sums<packs>& dq) const {
    if (this->problem.logit_scale == nullptr) return 0;
    return through_norm(block, this->problem.head_dim, this->units_of(block, task, 0), first, dq);
  }
  /// Adds ds of queries `query` on and keys `key` on to a head's rows of the table, each of which has the
  /// pairs of a query and a key at one distance.
  template <class B>
  LACUNA_DEVICE void add_to_table(const B& block, const Scores& ds, int query, int key, float* table) const {
    const WindowProblem& a = this->problem;
    auto& shared = block.shared().tiles.sums;
    const auto height = static_cast<int>(a.window_height), width = static_cast<int>(a.window_width),
               wide = 2 * width - 1;
    block.sync();  // all have read the last product
    share(block, ds, shared);
    block.sync();
    const int first_row = query / width, last_row = (query + tile - 1) / width;  // of the queries
    for (int row = block.thread(); row < a.table_rows(); row += block_threads) {
      const int down = row / wide - (height - 1), right = row % wide - (width - 1);
      const int top = larger(larger(down, 0), first_row),
                bottom = smaller(smaller(height, height + down) - 1, last_row);
      const int left = larger(right, 0), end = smaller(width, width + right), back = down * width + right;
      float sum = table[row];
      for (int y = top; y <= bottom; ++y)
        for (int x = left; x < end; ++x) {
          const int q = y * width + x - query, k = y * width + x - back - key;
          if (q >= 0 && q < tile && k >= 0 && k < tile) sum += shared[q][k];
        }
      table[row] = sum;
    }
  }
  /// Adds a thread's parts of Σ q̂·dq̂, the gradient of logit_scale where the scale is below its bound.
  template <class B>
  LACUNA_DEVICE void add_to_scale(const B& block, std::int64_t head, float along, float* to) const {
    const float sum = joined_of_block(block, along, block.shared().partial[0], Plus{});
    if (block.thread() == 0 && this->problem.logit_scale[head] <= 4.60517019F) *to += sum;
  }
};

template <class T>
struct WindowKeyPass : WindowBackwardPass<T> {
  /// dv += pᵀ·dy, of the scores' keys.
  template <class B>
  LACUNA_DEVICE void add_values(const B& block, const WindowTask& task, int query, const Scores& p,
                                Sums<packs>& dv) const {
    accumulate<true>(block, block.shared().tiles, this->problem.head_dim, p, this->rows_of_dy(block, task), query, dv);
  }
  /// dk / scale += dsᵀ·q, of the scores' keys.
  template <class B>
  LACUNA_DEVICE void add_keys(const B& block, const WindowTask& task, int query, const Scores& ds,
                              Sums<packs>& dk) const {
    accumulate<true>(block, block.shared().tiles, this->problem.head_dim, ds, this->units_of(block, task, 0), query,
                     dk);
  }
  template <class B>
  LACUNA_DEVICE void finish_keys(const B& block, const WindowTask& task, int key, Sums<packs>& dk) const {
    if (this->problem.logit_scale != nullptr)
      through_norm(block, this->problem.head_dim, this->units_of(block, task, 1), key, dk);
  }
  /// dv, and dk / scale, of keys `key` on.
  template <class B>
  LACUNA_DEVICE void gradients_of(const B& block, const WindowTask& task, int key, Sums<packs>& dk,
                                  Sums<packs>& dv) const {
    float along = 0;
    for (int query = 0; query < this->count(); query += tile) {
      Scores p = {}, ds = {};
      this->scores_of(block, task, query, key, p, ds, along);
      add_values(block, task, query, p, dv);
      add_keys(block, task, query, ds, dk);
    }
    finish_keys(block, task, key, dk);
  }
  LACUNA_DEVICE bool has_pads(const WindowTask& task) const {
    const WindowProblem& a = this->problem;
    // Rolling takes pads to windows before the last ones.
    if (a.pads_first) return a.height % a.window_height != 0 || a.width % a.window_width != 0;
    return (task.window / a.across() == a.down() - 1 && a.height % a.window_height != 0) ||
           (task.window % a.across() == a.across() - 1 && a.width % a.window_width != 0);
  }
  /// Adds factor · the sums of pads among keys `key` on to part 1 or 2, k or v, of pad_sums [parts, 3 · heads ·
  /// head_dim].
  template <class B>
  LACUNA_DEVICE void add_pads(const B& block, std::int64_t part, const WindowTask& task, int part_of_qkv, int key,
                              float factor, const Sums<packs>& sums, float* pad_sums) const {
    float* const to = pad_sums + (3 * part + part_of_qkv) * this->width() + task.head * this->problem.head_dim;
    const WindowProblem& a = this->problem;
    auto& [tiles, places, partial] = block.shared();
    const int own = key + own_row(block);
    float own_sums[packs][4] = {};
    const int x = x_of(block), y = block.thread() / across;
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int p = 0; p < packs; ++p)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (own + i < this->count() && places.token[own + i] < 0) own_sums[p][e] += factor * sums[i][p][e];
#pragma unroll
    for (int p = 0; p < packs; ++p)
#pragma unroll
      for (int e = 0; e < 4; ++e) partial[y][tile * p + 4 * x + e] = own_sums[p][e];
    block.sync();
    for (int column = block.thread(); column < a.head_dim; column += block_threads) {
      float sum = to[column];
      for (int i = 0; i < across; ++i) sum += partial[i][column];
      to[column] = sum;
    }
    block.sync();
  }
};

/// Calls f(task) for the windows of a part in ascending order.
template <class F>
LACUNA_DEVICE void for_each_window(const WindowProblem& a, std::int64_t head, std::int64_t part, const F& f) {
  const std::int64_t before = a.first * a.windows(), end = a.images * a.windows();
  for (std::int64_t number = (part + a.parts - before % a.parts) % a.parts; number < end; number += a.parts)
    f(WindowTask{number / a.windows(), number % a.windows(), head, number * a.heads + head});
}

}  // namespace lacuna::cuda::windows
