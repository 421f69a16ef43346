#include "core/tensor_cuda.h"

#include "core/backend.h"
#include "core/tensor.h"
#include "core/tensor_kernels.h"

#include <bit>
#include <cstring>

namespace lacuna {
namespace {

const RegisterKernel cuda_fill{
    tensor_fill, DeviceKind::cuda, [](double value, const Tensor& y) {
      const Stream stream = stream_of(y.device());
      if (y.count() == 0) return;
      if (std::bit_cast<std::uint64_t>(value) == 0)
        return backend(y.device()).set_to_zero(stream, y.raw(), static_cast<std::size_t>(y.bytes()));
      const Tensor one = Tensor::from(std::span(&value, 1), {1}, y.dtype());
      std::uint64_t element = 0;
      std::memcpy(&element, one.data<const std::byte>(), static_cast<std::size_t>(one.bytes()));
      cuda::fill(stream, y.raw(), y.count(), static_cast<int>(size_of(y.dtype())), element);
    }};

const RegisterKernel cuda_copy{
    tensor_copy, DeviceKind::cuda, [](const Tensor& x, const Tensor& y) {
      const Stream stream = stream_of(y.device());
      if (y.count() == 0) return;
      if (x.dtype() == y.dtype())
        return backend(y.device())
            .copy(stream, y.raw(), x.data<const std::byte>(), static_cast<std::size_t>(y.bytes()));
      cuda::convert(stream, y.count(), x.data<const std::byte>(), x.dtype(), y.raw(), y.dtype());
    }};

}  // namespace
}  // namespace lacuna
