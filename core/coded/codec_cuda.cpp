#include "core/coded/codec_cuda.h"

#include "core/backend.h"
#include "core/coded/codec.h"
#include "core/coded/maps.h"
#include "core/tensor.h"

namespace lacuna {
namespace {

cuda::CodedMatrix matrix_of(const Tensor& coded) {
  const std::int64_t width = coded.shape().rank() == 0 ? 1 : coded.shape().back();
  return {.bytes = reinterpret_cast<const std::uint8_t*>(coded.data<const std::byte>()),
          .format = coded.format(),
          .layout = layout_of(coded.format(), coded.count()),
          .values = values_of(coded.format().code),
          .nested_map = nested_map(),
          .rows = coded.count() / width,
          .width = width};
}

const RegisterKernel cuda_decode{decode_kernel, DeviceKind::cuda,
                                 [](const Tensor& coded, const CodedPart& part, const Tensor& out) {
                                   cuda::decode(stream_of(out.device()), out.dtype(), matrix_of(coded),
                                                {.ids = nullptr,
                                                 .first_row = part.first_row,
                                                 .rows = part.rows,
                                                 .first_column = part.first_column,
                                                 .columns = part.columns,
                                                 .to = out.raw()});
                                 }};
const RegisterKernel cuda_decode_rows{decode_rows_kernel, DeviceKind::cuda,
                                      [](const Tensor& coded, const Tensor& ids, const Tensor& out) {
                                        cuda::decode(stream_of(out.device()), out.dtype(), matrix_of(coded),
                                                     {.ids = ids.data<const std::int64_t>(),
                                                      .first_row = 0,
                                                      .rows = ids.count(),
                                                      .first_column = 0,
                                                      .columns = coded.shape().back(),
                                                      .to = out.raw()});
                                      }};

}  // namespace
}  // namespace lacuna
