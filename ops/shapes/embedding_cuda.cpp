#include "ops/shapes/embedding_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/shapes/embedding.h"

namespace lacuna {
namespace {

/// For a table of few entries, each of which has many rows. A plan does not count them: backward ends with embeddings,
/// when its tensors are gone.
Tensor partial_sums(std::int64_t rows, const Tensor& table) {
  constexpr std::int64_t few = 8;
  const std::int64_t parts = (rows + cuda::rows_of_part - 1) / cuda::rows_of_part;
  if (table.rows() > few || parts < 2) return {};
  return Tensor::empty({parts, table.rows(), table.shape().back()}, DType::f32, table.device(), Purpose::workspace);
}

// The host does not wait for ids: one outside of the table makes its row NaN.
const RegisterKernel cuda_forward{embedding_forward, DeviceKind::cuda,
                                  [](const Tensor& table, const Tensor& ids, const Tensor& base, const Tensor& y) {
                                    cuda::look_up(stream_of(y.device()), table.dtype(), y.dtype(),
                                                  {.table = table.data<const std::byte>(),
                                                   .ids = ids.data<const std::int64_t>(),
                                                   .base = base.defined() ? base.data<const std::byte>() : nullptr,
                                                   .y = y.raw(),
                                                   .entries = table.rows(),
                                                   .rows = ids.count(),
                                                   .width = y.shape().back()});
                                  }};
const RegisterKernel cuda_backward{embedding_backward, DeviceKind::cuda,
                                   [](const Tensor& dy, const Tensor& ids, std::int64_t padding, const Tensor& dtable) {
                                     const Tensor partial = partial_sums(ids.count(), dtable);
                                     cuda::add_to_table(stream_of(dy.device()), dtable.dtype(), dy.dtype(),
                                                        {.dy = dy.data<const std::byte>(),
                                                         .ids = ids.data<const std::int64_t>(),
                                                         .table = dtable.raw(),
                                                         .partial = partial.defined() ? partial.data<float>() : nullptr,
                                                         .entries = dtable.rows(),
                                                         .rows = ids.count(),
                                                         .width = dy.shape().back(),
                                                         .padding = padding});
                                   }};

}  // namespace
}  // namespace lacuna
