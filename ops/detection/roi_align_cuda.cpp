#include "ops/detection/roi_align_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/detection/roi_align.h"

namespace lacuna {
namespace {

cuda::RoiCall call_of(const RoiAlign& op, std::int64_t number, const Tensor& boxes, const Tensor& places,
                      const Shape& map) {
  return {.boxes = boxes.data<const float>(),
          .places = places.data<const std::int64_t>(),
          .count = places.shape()[0],
          .number = number,
          .images = map[0],
          .channels = map[3],
          .height = static_cast<std::int32_t>(map[1]),
          .width = static_cast<std::int32_t>(map[2]),
          .scale = static_cast<float>(op.scales[static_cast<std::size_t>(number)]),
          .bins = static_cast<std::int32_t>(op.bins),
          .samples = static_cast<std::int32_t>(op.samples),
          .aligned = op.aligned};
}

const RegisterKernel forward_on_cuda{
    roi_align_forward, DeviceKind::cuda,
    [](const RoiAlign& op, std::int64_t number, const Tensor& boxes, const Tensor& places, const Tensor& map,
       std::int64_t first_row, const Tensor& y) {
      cuda::align_rois(stream_of(y.device()), y.dtype(), call_of(op, number, boxes, places, map.shape()),
                       map.data<const std::byte>(), first_row, y.shape()[0], y.raw());
    }};
const RegisterKernel backward_on_cuda{roi_align_backward, DeviceKind::cuda,
                                      [](const RoiAlign& op, std::int64_t number, const Tensor& boxes,
                                         const Tensor& places, const Tensor& dy, const Tensor& dmap) {
                                        cuda::roi_gradient(stream_of(dmap.device()), dmap.dtype(),
                                                           call_of(op, number, boxes, places, dmap.shape()),
                                                           dy.data<const std::byte>(), dmap.raw());
                                      }};

}  // namespace
}  // namespace lacuna
