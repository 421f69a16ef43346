#include "ops/shapes/patch_merging_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/shapes/patch_merging_kernels.h"

namespace lacuna {
namespace {

void merge_on_cuda(const Tensor& image, const Tensor& merged, bool splits) {
  const Shape& shape = image.shape();
  cuda::merge_patches(stream_of(image.device()), {.image = image.raw(),
                                                  .merged = merged.raw(),
                                                  .images = shape[0],
                                                  .height = shape[1],
                                                  .width = shape[2],
                                                  .pixel = shape[3] * size_of(image.dtype()),
                                                  .splits = splits});
}

const RegisterKernel cuda_merge{merge_patches, DeviceKind::cuda,
                                [](const Tensor& x, const Tensor& y) { merge_on_cuda(x, y, false); }};
const RegisterKernel cuda_split{split_patches, DeviceKind::cuda,
                                [](const Tensor& y, const Tensor& x) { merge_on_cuda(x, y, true); }};

}  // namespace
}  // namespace lacuna
