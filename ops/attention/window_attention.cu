// Window attention on a GPU. A block has a tile of one window for one head: rolling, padding and cutting are address
// arithmetic, done once a block for the window's places. Sums over windows are taken in the order of their numbers
// within a part, so that bits do not depend on how many images one call has.
#include "ops/attention/window_attention_cuda.h"

#include "ops/attention/attention_tiles.h"

namespace lacuna::cuda {
namespace {

constexpr float masked = -100;                       // added to scores between regions
constexpr int most = most_window_tokens, packs = 1;  // head dimensions up to 64

/// The places of one window.
struct Places {
  std::int32_t token[most];                            // of the map; -1: a pad
  std::uint8_t row[most], column[most], region[most];  // windows have fewer than 256 rows and columns
  float q_norm[most], k_norm[most];                    // 1 / norm, with cosines
};

/// Part of the rolled and padded axis that a place belongs to: tokens of one window in different parts were no
/// neighbours.
LACUNA_DEVICE int region_of(std::int64_t place, std::int64_t padded, std::int64_t window, std::int64_t shift) {
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
    if (norms == nullptr && token[row] >= 0) return eight_of(data + token[row] * stride, column, dim);
    Pack<T, 8> pack{};
    for (int i = 0; i < 8 && column + i < dim; ++i) pack[i] = static_cast<T>(value(row, column + i));
    return pack;
  }
};

struct WindowTask {
  std::int64_t image, window, head, number;  // number: of the window and head in this call
};

template <class T>
struct WindowPass {
  static constexpr int threads = block_threads;
  struct Shared {
    Tiles<T, packs> tiles;
    Places places;
    float partial[across][tile];
  };
  WindowProblem problem;

  LACUNA_DEVICE std::int64_t width() const { return problem.heads * problem.head_dim; }
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
      const bool there = y < a.height && x < a.width;
      places.token[i] =
          !there ? -1
                 : static_cast<std::int32_t>((y + a.shift_down) % a.height * a.width + (x + a.shift_right) % a.width);
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
  LACUNA_DEVICE std::int64_t table_row(const Places& places, std::int64_t query, std::int64_t key) const {
    return (places.row[query] - places.row[key] + problem.window_height - 1) * (2 * problem.window_width - 1) +
           places.column[query] - places.column[key] + problem.window_width - 1;
  }
  /// From q·k of queries `query` + i and keys `key` + 16·j to scale · q·k, or that of their cosines.
  template <class B>
  LACUNA_DEVICE void scale(const B& block, const WindowTask& task, std::int64_t query, std::int64_t key,
                           Scores& scores) const {
    const auto& places = block.shared().places;
    const float factor = scale_of(task.head);
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const std::int64_t q = query + i, k = key + across * j;
        scores[i][j] *= factor;
        if (problem.logit_scale != nullptr && q < problem.window() && k < problem.window())
          scores[i][j] *= places.q_norm[q] * places.k_norm[k];
      }
  }
  /// From scale · q·k to scores to base 2; -inf beyond the window.
  template <class B>
  LACUNA_DEVICE void finish(const B& block, const WindowTask& task, std::int64_t query, std::int64_t key,
                            Scores& scores) const {
    const auto& places = block.shared().places;
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const std::int64_t q = query + i, k = key + across * j;
        if (k >= problem.window())
          scores[i][j] = -INFINITY;
        else if (q < problem.window())
          scores[i][j] = log2e * (scores[i][j] + problem.table[table_row(places, q, k) * problem.heads + task.head] +
                                  (places.region[q] == places.region[k] ? 0 : masked));
      }
  }
  /// Writes factor[i] · sums to the columns from `to` on of the tokens of places `first` + i.
  template <class B>
  LACUNA_DEVICE void write(const B& block, T* to, std::int64_t stride, std::int64_t first, const float (&factor)[each],
                           const Sums<packs>& sums) const {
    const auto& places = block.shared().places;
    for_sums<packs>(block, problem.head_dim, sums, [&](int i, std::int64_t column, float sum) {
      if (first + i >= problem.window() || places.token[first + i] < 0) return;
      to[places.token[first + i] * stride + column] = static_cast<T>(factor[i] * sum);
    });
  }
};

template <class T>
struct WindowForward : WindowPass<T> {
  T* y;  // rows [images · height · width, heads · head_dim]
  std::int64_t row_tiles;

  LACUNA_DEVICE void operator()(const Block<WindowForward>& block) const {
    const WindowProblem& a = this->problem;
    const WindowTask task = this->task_of(block, row_tiles);
    const std::int64_t first = block.index() % row_tiles * tile, own = first + own_row(block);
    auto& tiles = block.shared().tiles;
    this->set_places(block, task);
    const auto q = this->rows_of(block, task, 0), k = this->rows_of(block, task, 1), v = this->rows_of(block, task, 2);
    Sums<packs> sums = {};
    RowSums of_row;
    for (std::int64_t key = 0; key < a.window(); key += tile) {
      Scores p = {};
      multiply(block, block.shared().tiles, a.head_dim, q, first, k, key, p);
      this->scale(block, task, own, key + x_of(block), p);
      this->finish(block, task, own, key + x_of(block), p);
#pragma unroll
      for (int i = 0; i < each; ++i) {
        const float shrink = of_row.add(i, p[i]);
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][0][e] *= shrink;
      }
      accumulate<false>(block, tiles, a.head_dim, p, v, key, sums);
    }
    float factor[each];
#pragma unroll
    for (int i = 0; i < each; ++i) factor[i] = 1 / of_row.total[i];
    this->write(block, y + task.image * a.height * a.width * this->width() + task.head * a.head_dim, this->width(), own,
                factor, sums);
  }
};

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
  LACUNA_DEVICE void scores_of(const B& block, const WindowTask& task, std::int64_t query, std::int64_t key, Scores& p,
                               Scores& ds, float& along) const {
    const WindowProblem& a = this->problem;
    const std::int64_t own = query + own_row(block);
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
      const bool is_query = own + i < a.window() && block.shared().places.token[own + i] >= 0;
      const std::int64_t row = task.number * a.window() + own + i;
#pragma unroll
      for (int j = 0; j < each; ++j) {
        const bool there = is_query && key + x + across * j < a.window();
        p[i][j] = there ? exp2f(p[i][j] - log_sums[row]) : 0;
        ds[i][j] = there ? p[i][j] * (ds[i][j] - products[row]) : 0;
        along += there ? ds[i][j] * scaled[i][j] : 0;
      }
    }
  }
};

template <class T>
struct WindowStatistics : WindowBackwardPass<T> {
  std::int64_t row_tiles;

  LACUNA_DEVICE void operator()(const Block<WindowStatistics>& block) const {
    const WindowProblem& a = this->problem;
    const WindowTask task = this->task_of(block, row_tiles);
    const std::int64_t first = block.index() % row_tiles * tile, own = first + own_row(block);
    this->set_places(block, task);
    RowSums of_row;
    float own_products[each] = {};
    for (std::int64_t key = 0; key < a.window(); key += tile) {
      Scores p = {}, dp = {};
      multiply(block, block.shared().tiles, a.head_dim, this->rows_of(block, task, 0), first,
               this->rows_of(block, task, 1), key, p);
      this->scale(block, task, own, key + x_of(block), p);
      this->finish(block, task, own, key + x_of(block), p);
      multiply(block, block.shared().tiles, a.head_dim, this->rows_of_dy(block, task), first,
               this->rows_of(block, task, 2), key, dp);
#pragma unroll
      for (int i = 0; i < each; ++i) {
        const float shrink = of_row.add(i, p[i]);
        float sum = 0;
#pragma unroll
        for (int j = 0; j < each; ++j) sum += p[i][j] * dp[i][j];
        own_products[i] = own_products[i] * shrink + sum_of_lanes<across>(sum);
      }
    }
    if (x_of(block) != 0) return;
    for (int i = 0; i < each && own + i < a.window(); ++i) {
      this->log_sums[task.number * a.window() + own + i] = of_row.log_sum(i);
      this->products[task.number * a.window() + own + i] = own_products[i] / of_row.total[i];
    }
  }
};

/// Gradients of unit vectors become those of the vectors: (g - x̂·(x̂·g)) / |x|. `unit`: rows from `first` + 4·y + i on.
template <class B, class Rows>
LACUNA_DEVICE void through_norm(const B& block, std::int64_t dim, const Rows& unit, std::int64_t first,
                                Sums<packs>& sums) {
  const std::int64_t own = first + own_row(block);
  float along[each] = {};
  for_sums<packs>(block, dim, sums, [&](int i, std::int64_t column, float sum) {
    if (own + i < unit.count) along[i] += sum * unit.value(own + i, column);
  });
#pragma unroll
  for (int i = 0; i < each; ++i) along[i] = sum_of_lanes<across>(along[i]);
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
}

/// dq = scale · ds·k.
template <class T>
struct WindowQueryGradient : WindowBackwardPass<T> {
  T* dqkv;
  std::int64_t row_tiles;

  LACUNA_DEVICE void operator()(const Block<WindowQueryGradient>& block) const {
    const WindowProblem& a = this->problem;
    const WindowTask task = this->task_of(block, row_tiles);
    const std::int64_t first = block.index() % row_tiles * tile;
    auto& tiles = block.shared().tiles;
    this->set_places(block, task);
    Sums<packs> sums = {};
    float along = 0;
    for (std::int64_t key = 0; key < a.window(); key += tile) {
      Scores p = {}, ds = {};
      this->scores_of(block, task, first, key, p, ds, along);
      accumulate<false>(block, tiles, a.head_dim, ds, this->units_of(block, task, 1), key, sums);
    }
    if (a.logit_scale != nullptr) through_norm(block, a.head_dim, this->units_of(block, task, 0), first, sums);
    const float scale = this->scale_of(task.head), factor[each] = {scale, scale, scale, scale};
    T* const to = dqkv + task.image * a.height * a.width * 3 * this->width() + task.head * a.head_dim;
    this->write(block, to, 3 * this->width(), first + own_row(block), factor, sums);
  }
};

template <class T>
struct WindowKeyPass : WindowBackwardPass<T> {
  /// dv = pᵀ·dy, and dk / scale = dsᵀ·q, of keys `key` on.
  template <class B>
  LACUNA_DEVICE void gradients_of(const B& block, const WindowTask& task, std::int64_t key, Sums<packs>& dk,
                                  Sums<packs>& dv) const {
    const WindowProblem& a = this->problem;
    auto& tiles = block.shared().tiles;
    float along = 0;
    for (std::int64_t query = 0; query < a.window(); query += tile) {
      Scores p = {}, ds = {};
      this->scores_of(block, task, query, key, p, ds, along);
      accumulate<true>(block, tiles, a.head_dim, p, this->rows_of_dy(block, task), query, dv);
      accumulate<true>(block, tiles, a.head_dim, ds, this->units_of(block, task, 0), query, dk);
    }
    if (a.logit_scale != nullptr) through_norm(block, a.head_dim, this->units_of(block, task, 1), key, dk);
  }
};

template <class T>
struct WindowKeyGradient : WindowKeyPass<T> {
  T* dqkv;
  std::int64_t row_tiles;

  LACUNA_DEVICE void operator()(const Block<WindowKeyGradient>& block) const {
    const WindowProblem& a = this->problem;
    const WindowTask task = this->task_of(block, row_tiles);
    const std::int64_t key = block.index() % row_tiles * tile, own = key + own_row(block);
    this->set_places(block, task);
    Sums<packs> dk = {}, dv = {};
    this->gradients_of(block, task, key, dk, dv);
    const float one[each] = {1, 1, 1, 1}, scale = this->scale_of(task.head),
                factor[each] = {scale, scale, scale, scale};
    T* const to = dqkv + task.image * a.height * a.width * 3 * this->width() + task.head * a.head_dim;
    this->write(block, to + this->width(), 3 * this->width(), own, factor, dk);
    this->write(block, to + 2 * this->width(), 3 * this->width(), own, one, dv);
  }
};

/// Calls f(task) for the windows of a part in ascending order.
template <class F>
LACUNA_DEVICE void for_each_window(const WindowProblem& a, std::int64_t head, std::int64_t part, const F& f) {
  const std::int64_t before = a.first * a.windows(), end = a.images * a.windows();
  for (std::int64_t number = (part + a.parts - before % a.parts) % a.parts; number < end; number += a.parts)
    f(WindowTask{number / a.windows(), number % a.windows(), head, number * a.heads + head});
}

/// Adds the pads' share of dk and dv to pad_sums. A block has a head of a part.
template <class T>
struct WindowPadGradient : WindowKeyPass<T> {
  float* pad_sums;  // [parts, 3 · heads · head_dim]

  LACUNA_DEVICE void operator()(const Block<WindowPadGradient>& block) const {
    const WindowProblem& a = this->problem;
    const std::int64_t head = block.index() % a.heads, part = block.index() / a.heads;
    float* const to = pad_sums + part * 3 * this->width() + head * a.head_dim;
    for_each_window(a, head, part, [&](const WindowTask& task) {
      const bool last_row = task.window / a.across() == a.down() - 1 && a.height % a.window_height != 0;
      const bool last_column = task.window % a.across() == a.across() - 1 && a.width % a.window_width != 0;
      if (!last_row && !last_column) return;
      this->set_places(block, task);
      for (std::int64_t key = 0; key < a.window(); key += tile) {
        Sums<packs> dk = {}, dv = {};
        this->gradients_of(block, task, key, dk, dv);
        add(block, key, this->scale_of(head), dk, to + this->width());
        add(block, key, 1, dv, to + 2 * this->width());
      }
    });
  }

 private:
  LACUNA_DEVICE void add(const Block<WindowPadGradient>& block, std::int64_t key, float factor, const Sums<packs>& sums,
                         float* to) const {
    const WindowProblem& a = this->problem;
    auto& [tiles, places, partial] = block.shared();
    const std::int64_t own = key + own_row(block);
    float own_sums[packs][4] = {};
    const int x = x_of(block), y = block.thread() / across;
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int p = 0; p < packs; ++p)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (own + i < a.window() && places.token[own + i] < 0) own_sums[p][e] += factor * sums[i][p][e];
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

/// Adds ds to table_sums by the table's rows, and Σ ds ∘ (scale · q·k) to scale_sums. A block has a head of a part.
template <class T>
struct WindowTableGradient : WindowBackwardPass<T> {
  float *table_sums, *scale_sums;  // [parts, heads, table_rows], [parts, heads]; null: not wanted

  LACUNA_DEVICE void operator()(const Block<WindowTableGradient>& block) const {
    const WindowProblem& a = this->problem;
    const std::int64_t head = block.index() % a.heads, part = block.index() / a.heads;
    auto& shared = block.shared();
    for_each_window(a, head, part, [&](const WindowTask& task) {
      this->set_places(block, task);
      float along = 0;
      for (std::int64_t query = 0; query < a.window(); query += tile)
        for (std::int64_t key = 0; key < a.window(); key += tile) {
          Scores p = {}, ds = {};
          this->scores_of(block, task, query, key, p, ds, along);
          block.sync();  // all have read the last product
          share(block, ds, shared.tiles.sums);
          block.sync();
          if (table_sums != nullptr) add(block, query, key, table_sums + (part * a.heads + head) * a.table_rows());
        }
      // d logit_scale = Σ q̂·dq̂ where the scale is below its bound.
      const float sum = joined_of_block(block, along, shared.partial[0], Plus{});
      if (scale_sums != nullptr && block.thread() == 0 && a.logit_scale[head] <= 4.60517019F)
        scale_sums[part * a.heads + head] += sum;
    });
  }

 private:
  /// Each row of the table has the pairs of a query and a key at one distance.
  LACUNA_DEVICE void add(const Block<WindowTableGradient>& block, std::int64_t first_query, std::int64_t first_key,
                         float* sums) const {
    const WindowProblem& a = this->problem;
    const auto& [tiles, places, partial] = block.shared();
    const std::int64_t wide = 2 * a.window_width - 1;
    for (std::int64_t row = block.thread(); row < a.table_rows(); row += block_threads) {
      const std::int64_t down = row / wide - (a.window_height - 1), right = row % wide - (a.window_width - 1);
      float sum = sums[row];
      for (int i = 0; i < tile && first_query + i < a.window(); ++i) {
        const std::int64_t y = places.row[first_query + i] - down, x = places.column[first_query + i] - right;
        const std::int64_t key = y * a.window_width + x - first_key;
        if (y >= 0 && y < a.window_height && x >= 0 && x < a.window_width && key >= 0 && key < tile)
          sum += tiles.sums[i][key];
      }
      sums[row] = sum;
    }
  }
};

struct TableSum {
  static constexpr int threads = 256;
  const float* sums;  // [parts, heads, rows]
  float* to;          // [rows, heads]
  std::int64_t parts, heads, rows;
  LACUNA_DEVICE void operator()(const Block<TableSum>& block) const {
    const std::int64_t i = block.global_thread();
    if (i >= heads * rows) return;
    float sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += sums[part * heads * rows + i];
    to[i % rows * heads + i / rows] = sum;
  }
};

template <class T>
void start_backward(Stream stream, const WindowProblem& a, const WindowGradientPointers& to) {
  const std::int64_t tasks = a.images * a.windows() * a.heads, tiles = divide_up(a.window(), tile);
  const WindowBackwardPass<T> pass{
      {a}, static_cast<const T*>(to.dy), to.statistics, to.statistics + tasks * a.window()};
  run(stream, tasks * tiles, WindowStatistics<T>{pass, tiles});
  if (to.qkv != nullptr) {
    run(stream, tasks * tiles, WindowQueryGradient<T>{pass, static_cast<T*>(to.qkv), tiles});
    run(stream, tasks * tiles, WindowKeyGradient<T>{{pass}, static_cast<T*>(to.qkv), tiles});
  }
  if (to.pad_sums != nullptr) run(stream, a.heads * a.parts, WindowPadGradient<T>{{pass}, to.pad_sums});
  if (to.table_sums != nullptr || to.scale_sums != nullptr)
    run(stream, a.heads * a.parts, WindowTableGradient<T>{pass, to.table_sums, to.scale_sums});
}

}  // namespace

void window_attention_forward(Stream stream, DType type, const WindowProblem& a, void* y) {
  const std::int64_t tiles = divide_up(a.window(), tile), blocks = a.images * a.windows() * a.heads * tiles;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, blocks, WindowForward<T>{{a}, static_cast<T*>(y), tiles});
  });
}

void window_attention_backward(Stream stream, DType type, const WindowProblem& a, const WindowGradientPointers& to) {
  with_cuda_type(type, [&]<class T>(Type<T>) { start_backward<T>(stream, a, to); });
}

void window_attention_sum_table(Stream stream, const float* table_sums, std::int64_t parts, std::int64_t heads,
                                std::int64_t table_rows, float* table_gradient) {
  run(stream, divide_up(heads * table_rows, TableSum::threads),
      TableSum{table_sums, table_gradient, parts, heads, table_rows});
}

}  // namespace lacuna::cuda
