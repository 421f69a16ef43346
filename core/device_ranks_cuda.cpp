#include "core/device_ranks_cuda.h"

#include "core/backend.h"
#include "core/device_ranks.h"
#include "core/tensor.h"

namespace lacuna {
namespace {

const RegisterKernel cuda_rows{add_rows_in_order, DeviceKind::cuda, [](const Tensor& rows, const Tensor& sum) {
                                 const std::int64_t width = sum.count();
                                 cuda::add_rows_in_order(stream_of(sum.device()), sum.dtype(),
                                                         rows.data<const std::byte>(), rows.count() / width, width,
                                                         sum.raw());
                               }};

}  // namespace
}  // namespace lacuna
