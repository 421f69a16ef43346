// Codes that kernels on cuda decode as they read, against the CPU's decoder.
#include "ops/curves/activation_kernels.h"
#include "ops/formulas.h"
#include "ops/operand.h"
#include "tests/ops/op_run.h"

#include <doctest/doctest.h>

namespace lacuna {
namespace {

/// dx of tanh, dx = dy · (1 - y²), from an operand.
Tensor gradient(const Operand& y, const Tensor& dy) {
  const Tensor dx = empty_like(dy);
  curve_backward<formula::Tanh>(dx.device(), y, dy, dx);
  return dx;
}

}  // namespace

TEST_CASE("cuda: codes of all widths decode as on the CPU") {
  const Tensor dy = sample_values({21, 56}, DType::f32, 1);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor y = sample_values({21, 56}, dtype, 2), gradients = dy.to(dtype);
    for (int bits = 1; bits <= 8; ++bits) {
      for (const std::string_view rounding : {"stochastic", "dithered"}) {
        for (const std::int64_t size : {std::int64_t{8}, std::int64_t{256}, std::int64_t{5000}}) {
          CAPTURE(bits);
          CAPTURE(size);
          const quant::QuantizedTensor here =
              quant::quantize(y, {.bits = bits, .grouping = {.size = size}, .quantizer = rounding}, 42);
          quant::QuantizedTensor there = here;
          there.bytes = here.bytes.to(Device::cuda);
          const Operand codes(QuantizedForm{there}, y.shape(), dtype, Device::cuda, {}, {});
          const Tensor decoded = Operand(QuantizedForm{here}, y.shape(), dtype, Device::cpu, {}, {}).whole();
          const Tensor got = gradient(codes, gradients.to(Device::cuda)),
                       expected = gradient(Operand(decoded), gradients);
          CHECK(relative_error(got, expected) < (dtype == DType::f32 ? 1e-6 : 1e-2));
        }
      }
    }
  }
}

}  // namespace lacuna
