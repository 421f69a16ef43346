#include "ops/shapes/embedding_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/shapes/embedding.h"

namespace lacuna {
namespace {

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
const RegisterKernel cuda_backward{
    embedding_backward, DeviceKind::cuda,
    [](const Tensor& dy, const Tensor& ids, std::int64_t padding, const Tensor& dtable,
       const EmbeddingWorkspace& workspace) {
      const Tensor &partial = workspace.partial, &found = workspace.found;
      if (found.defined()) found.fill(0);
      cuda::add_to_table(stream_of(dy.device()), dtable.dtype(), dy.dtype(),
                         {.dy = dy.data<const std::byte>(),
                          .ids = ids.data<const std::int64_t>(),
                          .table = dtable.raw(),
                          .partial = partial.defined() ? partial.data<float>() : nullptr,
                          .found = found.defined() ? reinterpret_cast<std::uint32_t*>(found.raw()) : nullptr,
                          .entries = dtable.rows(),
                          .rows = ids.count(),
                          .rows_of_part = EmbeddingWorkspace::rows_of_part,
                          .width = dy.shape().back(),
                          .padding = padding});
    }};

}  // namespace
}  // namespace lacuna
