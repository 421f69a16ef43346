// Lookup of rows.
#pragma once

#include "core/kernel.h"
#include "core/op.h"

namespace lacuna {

/// y[..., i, :] = table[ids[i]] (+ base[..., i, :]), as torch.nn.Embedding: also the selection of rows of any tensor.
/// table: [V, C] or [1, V, C]; ids: i64 of n elements, each in [0, V), otherwise an Error that names the element; base
/// [1, n, C] of `dtype`, optional; y: [1, n, C] of `dtype`, or of f64 for an f64 table.
///
/// Backward adds the rows of dy to the gradient of the table in the order of ids, whatever the number of threads. The
/// row `padding` gets no gradient.
struct Embedding {
  enum Input { table, ids, base };
  Shape shape;  // of the table
  std::int64_t padding = -1;
  DType dtype = DType::f32;
  static constexpr std::string_view name = "embedding";
  static constexpr std::array saves{Save{.from = input(ids), .need = Need::exact, .for_grad_of = {table}}};
  static constexpr InputSet accumulates_into{table};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<Embedding>& saved, Grads& grads) const;
};

/// y = rows `ids` of the table, plus base where it is defined.
inline constinit Kernel<void(const Tensor& table, const Tensor& ids, const Tensor& base, const Tensor& y)>
    embedding_forward{"embedding"};
/// Workspace of backward on cuda, for `rows` rows and their table; nothing elsewhere. One of the two.
struct EmbeddingWorkspace {
  static constexpr std::int64_t few_entries = 8;
  static constexpr std::int64_t rows_of_part = 64;  // whose sums for the entries of such a table are added first

  EmbeddingWorkspace(std::int64_t rows, const Tensor& table);
  Tensor partial{};  // f32 [parts, entries, width]: sums of parts of the rows, for a table of few entries
  Tensor found{};    // i32 [2, entries]: how many rows have the id of an entry, and which is the first
};

/// Adds the rows of dy to rows `ids` of `dtable`, but for the row `padding`.
inline constinit Kernel<void(const Tensor& dy, const Tensor& ids, std::int64_t padding, const Tensor& dtable,
                             const EmbeddingWorkspace& workspace)>
    embedding_backward{"embedding backward"};

}  // namespace lacuna
