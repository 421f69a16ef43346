// Window attention on a GPU. Sums over windows are taken in the order of their numbers within a part, so that bits do
// not depend on how many images one call has.
#include "ops/attention/window_passes.h"

namespace lacuna::cuda {
namespace {

using namespace windows;

template <class T>
struct WindowForward : WindowPass<T> {
  T* y;  // rows [images · height · width, heads · head_dim]
  std::int64_t row_tiles;

  LACUNA_DEVICE void operator()(const Block<WindowForward>& block) const {
    const WindowProblem& a = this->problem;
    const WindowTask task = this->task_of(block, row_tiles);
    const int first = static_cast<int>(block.index() % row_tiles) * tile, own = first + own_row(block);
    auto& tiles = block.shared().tiles;
    this->set_places(block, task);
    const auto q = this->rows_of(block, task, 0), k = this->rows_of(block, task, 1), v = this->rows_of(block, task, 2);
    Sums<packs> sums = {};
    RowSums of_row;
    for (int key = 0; key < this->count(); key += tile) {
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
struct WindowStatistics : WindowBackwardPass<T> {
  std::int64_t row_tiles;

  LACUNA_DEVICE void operator()(const Block<WindowStatistics>& block) const {
    const WindowProblem& a = this->problem;
    const WindowTask task = this->task_of(block, row_tiles);
    const int first = static_cast<int>(block.index() % row_tiles) * tile, own = first + own_row(block);
    this->set_places(block, task);
    RowSums of_row;
    float own_products[each] = {};
    for (int key = 0; key < this->count(); key += tile) {
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
    for (int i = 0; i < each && own + i < this->count(); ++i) {
      this->log_sums[task.number * a.window() + own + i] = of_row.log_sum(i);
      this->products[task.number * a.window() + own + i] = own_products[i] / of_row.total[i];
    }
  }
};

/// dq = scale · ds·k.
template <class T>
struct WindowQueryGradient : WindowBackwardPass<T> {
  T* dqkv;
  std::int64_t row_tiles;

  LACUNA_DEVICE void operator()(const Block<WindowQueryGradient>& block) const {
    const WindowTask task = this->task_of(block, row_tiles);
    const int first = static_cast<int>(block.index() % row_tiles) * tile;
    this->set_places(block, task);
    Sums<packs> sums = {};
    float along = 0;
    for (int key = 0; key < this->count(); key += tile) {
      Scores p = {}, ds = {};
      this->scores_of(block, task, first, key, p, ds, along);
      this->add_queries(block, task, key, ds, sums);
    }
    this->finish_queries(block, task, first, sums);
    this->write_part(block, task, 0, first, this->scale_of(task.head), sums, dqkv);
  }
};

template <class T>
struct WindowKeyGradient : WindowKeyPass<T> {
  T* dqkv;
  std::int64_t row_tiles;

  LACUNA_DEVICE void operator()(const Block<WindowKeyGradient>& block) const {
    const WindowTask task = this->task_of(block, row_tiles);
    const int key = static_cast<int>(block.index() % row_tiles) * tile;
    this->set_places(block, task);
    Sums<packs> dk = {}, dv = {};
    this->gradients_of(block, task, key, dk, dv);
    this->write_part(block, task, 1, key, this->scale_of(task.head), dk, dqkv);
    this->write_part(block, task, 2, key, 1, dv, dqkv);
  }
};

/// Adds the pads' share of dk and dv to pad_sums. A block has a head of a part.
template <class T>
struct WindowPadGradient : WindowKeyPass<T> {
  static constexpr int blocks_together = 1;
  float* pad_sums;  // [parts, 3 · heads · head_dim]

  LACUNA_DEVICE void operator()(const Block<WindowPadGradient>& block) const {
    const WindowProblem& a = this->problem;
    const std::int64_t head = block.index() % a.heads, part = block.index() / a.heads;
    for_each_window(a, head, part, [&](const WindowTask& task) {
      if (!this->has_pads(task)) return;
      this->set_places(block, task);
      for (int key = 0; key < this->count(); key += tile) {
        Sums<packs> dk = {}, dv = {};
        this->gradients_of(block, task, key, dk, dv);
        this->add_pads(block, part, task, 1, key, this->scale_of(head), dk, pad_sums);
        this->add_pads(block, part, task, 2, key, 1, dv, pad_sums);
      }
    });
  }
};

/// Adds ds to table_sums by the table's rows, and Σ ds ∘ (scale · q·k) to scale_sums. A block has a head of a part.
template <class T>
struct WindowTableGradient : WindowBackwardPass<T> {
  static constexpr int blocks_together = 1;
  float *table_sums, *scale_sums;  // [parts, heads, table_rows], [parts, heads]; null: not wanted

  LACUNA_DEVICE void operator()(const Block<WindowTableGradient>& block) const {
    const WindowProblem& a = this->problem;
    const std::int64_t head = block.index() % a.heads, part = block.index() / a.heads;
    for_each_window(a, head, part, [&](const WindowTask& task) {
      this->set_places(block, task);
      float along = 0;
      for (int query = 0; query < this->count(); query += tile)
        for (int key = 0; key < this->count(); key += tile) {
          Scores p = {}, ds = {};
          this->scores_of(block, task, query, key, p, ds, along);
          if (table_sums != nullptr)
            this->add_to_table(block, ds, query, key, table_sums + (part * a.heads + head) * a.table_rows());
        }
      if (scale_sums != nullptr) this->add_to_scale(block, head, along, scale_sums + part * a.heads + head);
    });
  }
};

/// All gradients of windows of up to 64 tokens, whose scores are one tile: a block has a head of a part, and computes
/// the scores of each window once.
template <class T>
struct WindowTileGradients : WindowKeyPass<T> {
  T* dqkv;
  float *pad_sums, *table_sums, *scale_sums;  // as above; null: not wanted

  LACUNA_DEVICE void operator()(const Block<WindowTileGradients>& block) const {
    const WindowProblem& a = this->problem;
    const std::int64_t head = block.index() % a.heads, part = block.index() / a.heads;
    for_each_window(a, head, part, [&](const WindowTask& task) {
      this->set_places(block, task);
      Scores p = {}, ds = {};
      scores_of_tile(block, task, p, ds);
      if (table_sums != nullptr)
        this->add_to_table(block, ds, 0, 0, table_sums + (part * a.heads + head) * a.table_rows());
      const bool adds_pads = pad_sums != nullptr && this->has_pads(task);
      if (dqkv != nullptr || adds_pads) {
        Sums<packs> dv = {}, dk = {};
        this->add_values(block, task, 0, p, dv);
        give(block, part, task, 2, 1, dv, adds_pads);
        this->add_keys(block, task, 0, ds, dk);
        this->finish_keys(block, task, 0, dk);
        give(block, part, task, 1, this->scale_of(head), dk, adds_pads);
      }
      if (dqkv == nullptr && scale_sums == nullptr) return;
      Sums<packs> dq = {};
      this->add_queries(block, task, 0, ds, dq);
      const float scale = this->scale_of(head), along = scale * this->finish_queries(block, task, 0, dq);
      if (scale_sums != nullptr) this->add_to_scale(block, head, along, scale_sums + part * a.heads + head);
      if (dqkv != nullptr) this->write_part(block, task, 0, 0, scale, dq, dqkv);
    });
  }

 private:
  LACUNA_DEVICE void give(const Block<WindowTileGradients>& block, std::int64_t part, const WindowTask& task,
                          int part_of_qkv, float factor, const Sums<packs>& sums, bool adds_pads) const {
    if (adds_pads) this->add_pads(block, part, task, part_of_qkv, 0, factor, sums, pad_sums);
    if (dqkv != nullptr) this->write_part(block, task, part_of_qkv, 0, factor, sums, dqkv);
  }
  /// As scores_of, which finds the statistics in memory.
  LACUNA_DEVICE void scores_of_tile(const Block<WindowTileGradients>& block, const WindowTask& task, Scores& p,
                                    Scores& ds) const {
    const WindowProblem& a = this->problem;
    auto& shared = block.shared();
    const int own = own_row(block);
    multiply(block, shared.tiles, a.head_dim, this->rows_of(block, task, 0), 0, this->rows_of(block, task, 1), 0, p);
    multiply(block, shared.tiles, a.head_dim, this->rows_of_dy(block, task), 0, this->rows_of(block, task, 2), 0, ds);
    this->scale(block, task, own, x_of(block), p);
    this->finish(block, task, own, x_of(block), p);
    RowSums of_row;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      of_row.add(i, p[i]);
      const bool is_query = own + i < this->count() && shared.places.token[own + i] >= 0;
      const float factor = is_query ? 1 / of_row.total[i] : 0;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < each; ++j) {
        p[i][j] *= factor;
        sum += p[i][j] * ds[i][j];
      }
      sum = sum_of_lanes<across>(sum);
#pragma unroll
      for (int j = 0; j < each; ++j) ds[i][j] = p[i][j] * (ds[i][j] - sum);
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
#pragma unroll 8
    for (std::int64_t part = 0; part < parts; ++part) sum += sums[part * heads * rows + i];
    to[i % rows * heads + i / rows] = sum;
  }
};

template <class T>
void start_backward(Stream stream, const WindowProblem& a, const WindowGradientPointers& to) {
  static_assert(most_tile_tokens == tile);
  WindowBackwardPass<T> pass{{a}, static_cast<const T*>(to.dy), nullptr, nullptr};
  if (a.window() <= tile)
    return run(stream, a.heads * a.parts,
               WindowTileGradients<T>{{pass}, static_cast<T*>(to.qkv), to.pad_sums, to.table_sums, to.scale_sums});
  const std::int64_t tasks = a.images * a.windows() * a.heads, tiles = divide_up(a.window(), tile);
  pass.log_sums = to.statistics;
  pass.products = to.statistics + tasks * a.window();
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
