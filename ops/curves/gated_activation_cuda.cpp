#include "ops/curves/gated_activation_cuda.h"

#include "ops/cuda/operand.h"
#include "ops/curves/gated_activation.h"

#include <algorithm>

namespace lacuna {
namespace {

cuda::GatedCurve curve_of(GatedActivation::Curve curve) { return static_cast<cuda::GatedCurve>(curve); }

/// The tensor that a kernel reads as it lies; nothing if it has to be decoded first, or computed again.
std::optional<cuda::SavedValues> readable(const Operand& operand, std::int64_t width) {
  if (const auto* const kept = operand.as<KeptForm>()) return cuda::saved_values(kept->values);
  return width % 8 == 0 ? cuda::saved_codes(operand) : std::nullopt;
}

/// Rows of an operand from `begin` on, if it is codes; a tensor holds those alone.
cuda::GatedInput input_from(const Operand& operand, std::int64_t begin, std::int64_t width) {
  if (!operand.defined()) return {};
  return {readable(operand, width).value(), operand.shape().rows(), operand.as<KeptForm>() == nullptr ? begin : 0};
}

void forward(GatedActivation::Curve curve, const Operand& gate, const Operand& up, std::int64_t begin,
             const Tensor& y) {
  const std::int64_t width = y.shape().back();
  cuda::gated_forward(stream_of(y.device()), y.dtype(),
                      {.curve = curve_of(curve),
                       .joined = !up.defined(),
                       .gate = input_from(gate, begin, width),
                       .up = input_from(up, begin, width),
                       .y = y.raw(),
                       .rows = y.rows(),
                       .width = width});
}

const RegisterKernel cuda_gated_forward{
    gated_activation_forward, DeviceKind::cuda,
    [](GatedActivation::Curve curve, const Tensor& gate, const Tensor& up, const Tensor& y) {
      forward(curve, Operand(gate), up.defined() ? Operand(up) : Operand(), 0, y);
    }};
const RegisterKernel cuda_gated_of_codes{gated_activation_of_codes, DeviceKind::cuda, forward};

const RegisterKernel cuda_gated_backward{
    gated_activation_backward, DeviceKind::cuda,
    [](GatedActivation::Curve curve, const Operand& gate, const Operand& up, const Tensor& dy, const Tensor& dgate,
       const Tensor& dup) {
      const std::int64_t width = dy.shape().back(), count = dy.rows();
      const auto backward = [&](std::int64_t begin, std::int64_t end, const cuda::SavedValues& gates,
                                const cuda::SavedValues& ups) {
        const auto rows = [&](const Tensor& to) { return to.defined() ? to.row_range(begin, end).raw() : nullptr; };
        cuda::gated_backward(stream_of(dy.device()), dy.dtype(),
                             {.curve = curve_of(curve),
                              .joined = gate.shape().back() != width,
                              .gate = gates,
                              .up = ups,
                              .dy = dy.row_range(begin, end).data<const std::byte>(),
                              .dgate = rows(dgate),
                              .dup = rows(dup),
                              .rows = end - begin,
                              .width = width});
      };
      const std::optional<cuda::SavedValues> gates = readable(gate, width);
      const std::optional<cuda::SavedValues> ups = up.defined() ? readable(up, width) : cuda::SavedValues{};
      if (gates.has_value() && ups.has_value()) return backward(0, count, *gates, *ups);
      const std::int64_t step = up.defined() ? std::min(gate.block_rows(), up.block_rows()) : gate.block_rows();
      for (std::int64_t begin = 0; begin < count; begin += step) {
        const std::int64_t end = std::min(count, begin + step);
        const Tensor gate_rows = gate.rows(begin, end), up_rows = up.defined() ? up.rows(begin, end) : Tensor();
        backward(begin, end, cuda::saved_values(gate_rows),
                 up_rows.defined() ? cuda::saved_values(up_rows) : cuda::SavedValues{});
      }
    }};

}  // namespace
}  // namespace lacuna
