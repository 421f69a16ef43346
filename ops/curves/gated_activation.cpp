#include "ops/curves/gated_activation.h"

#include "core/parallel.h"
#include "ops/curves/gated_curves.h"
#include "ops/operand.h"

#include <algorithm>

namespace lacuna {
namespace {

const RegisterOp<GatedActivation> gated_activation;

/// The gate's or up's part of rows [rows, C] that lie `stride` elements apart; null: not given, or not wanted.
template <class T>
struct GatedPart {
  T* data = nullptr;
  std::int64_t stride = 0;
  T* row(std::int64_t i) const { return data == nullptr ? nullptr : data + i * stride; }
};
template <class T>
struct GatedParts {
  GatedPart<T> gate, up;
};
/// `up` undefined: `gate` holds both if it has 2 · width columns.
template <class T>
GatedParts<T> parts_of(const Tensor& gate, const Tensor& up, std::int64_t width) {
  GatedParts<T> parts;
  if (gate.defined()) parts.gate = {gate.data<T>(), gate.shape().back()};
  if (gate.defined() && parts.gate.stride == 2 * width)
    parts.up = {parts.gate.data + width, parts.gate.stride};
  else if (up.defined())
    parts.up = {up.data<T>(), width};
  return parts;
}

/// Rows [n] of forward and of backward. Not inlined, so that each is vectorized once.
template <class F, class T>
[[gnu::noinline]] void gate_row(std::int64_t n, const T* gate, const T* up, T* y) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(F{}(to_compute(gate[i])) * to_compute(up[i]));
}
template <class F, class B, class T>
[[gnu::noinline]] void gradients_row(std::int64_t n, const T* gate, const T* up, const T* dy, T* dgate, T* dup) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const auto g = to_compute(gate[i]), d = to_compute(dy[i]), u = to_compute(up[i]);
    dgate[i] = static_cast<T>(B{}(d * u, g));
    dup[i] = static_cast<T>(d * F{}(g));
  }
}
template <class B, class T>
[[gnu::noinline]] void gate_gradient_row(std::int64_t n, const T* gate, const T* up, const T* dy, T* dgate) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    dgate[i] = static_cast<T>(B{}(to_compute(dy[i]) * to_compute(up[i]), to_compute(gate[i])));
}

std::int64_t rows_of_a_thread(std::int64_t width) { return 16384 / std::max<std::int64_t>(1, width) + 1; }

const RegisterKernel cpu_gated_forward{
    gated_activation_forward, DeviceKind::cpu,
    [](GatedActivation::Curve curve, const Tensor& gate, const Tensor& up, const Tensor& y) {
      const std::int64_t width = y.shape().back();
      with_float_type(y.dtype(), [&]<class T>(Type<T>) {
        with_gated_curve(curve, [&]<class F, class B>(F, B) {
          const GatedParts<const T> in = parts_of<const T>(gate, up, width);
          T* const out = y.data<T>();
          parallel_for(y.rows(), rows_of_a_thread(width), [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i)
              gate_row<F>(width, in.gate.row(i), in.up.row(i), out + i * width);
          });
        });
      });
    }};

/// Gradients of the rows of `gate` and `up`, of which dy, dgate and dup are those rows too.
template <class T>
void gradients_of_rows(GatedActivation::Curve curve, const Tensor& gate, const Tensor& up, const Tensor& dy,
                       const Tensor& dgate, const Tensor& dup) {
  const std::int64_t width = dy.shape().back();
  const GatedParts<const T> in = parts_of<const T>(gate, up, width);
  const GatedParts<T> to = parts_of<T>(dgate, dup, width);
  const T* const from = dy.data<const T>();
  with_gated_curve(curve, [&]<class F, class B>(F, B) {
    parallel_for(dy.rows(), rows_of_a_thread(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* const d = from + i * width;
        if (to.gate.data == nullptr)
          gate_row<F>(width, in.gate.row(i), d, to.up.row(i));  // dup = f(gate) · dy
        else if (to.up.data == nullptr)
          gate_gradient_row<B>(width, in.gate.row(i), in.up.row(i), d, to.gate.row(i));
        else
          gradients_row<F, B>(width, in.gate.row(i), in.up.row(i), d, to.gate.row(i), to.up.row(i));
      }
    });
  });
}

// On meta it allocates what row blocks are decoded into.
const RegisterKernel cpu_gated_backward{
    gated_activation_backward,
    {DeviceKind::cpu, DeviceKind::meta},
    [](GatedActivation::Curve curve, const Operand& gate, const Operand& up, const Tensor& dy, const Tensor& dgate,
       const Tensor& dup) {
      const std::int64_t step = up.defined() ? std::min(gate.block_rows(), up.block_rows()) : gate.block_rows();
      for (std::int64_t begin = 0; begin < dy.rows(); begin += step) {
        const std::int64_t end = std::min(dy.rows(), begin + step);
        const auto rows = [&](const auto& whole, auto read) { return whole.defined() ? read(whole) : Tensor(); };
        const auto decoded = [&](const Operand& operand) { return operand.rows(begin, end); };
        const auto view = [&](const Tensor& tensor) { return tensor.row_range(begin, end); };
        const Tensor gates = decoded(gate), ups = rows(up, decoded);
        if (dy.device() == Device::meta) continue;
        with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
          gradients_of_rows<T>(curve, gates, ups, view(dy), rows(dgate, view), rows(dup, view));
        });
      }
    }};

}  // namespace

Tensor GatedActivation::forward(std::span<const Tensor> inputs) const {
  const Tensor &g = inputs[gate], &u = inputs[up];
  expect(g.shape().rank() > 0, "gated_activation: expected a gate [..., C], got {}", g.shape());
  if (u.defined())
    expect(u.shape() == g.shape() && u.dtype() == g.dtype(),
           "gated_activation: expected gate and up of one shape and type, got {} in {} and {} in {}", g.shape(),
           name_of(g.dtype()), u.shape(), name_of(u.dtype()));
  else
    expect(g.shape().back() % 2 == 0, "gated_activation: expected an even last axis of gate and up together, got {}",
           g.shape());
  const Shape shape = u.defined() ? g.shape() : g.shape().with_back(g.shape().back() / 2);
  Tensor y = Tensor::empty(shape, g.dtype(), g.device());
  gated_activation_forward(y.device(), curve, g, u, y);
  return y;
}

void GatedActivation::backward(Tensor dy, const Saved<GatedActivation>& saved, Grads& grads) const {
  const bool of_gate = grads.wanted(gate), of_up = grads.wanted(up);
  const Operand gates = saved.get<input(gate)>();
  const Operand ups = of_gate && saved.has<input(up)>() ? saved.get<input(up)>() : Operand();
  if (of_gate)
    grads[gate] = gates.shape().back() == dy.shape().back() ? reuse_or_empty(dy, dy.shape(), dy.dtype())
                                                            : Tensor::empty(gates.shape(), dy.dtype(), dy.device());
  if (of_up)
    grads[up] =
        of_gate ? Tensor::empty(dy.shape(), dy.dtype(), dy.device()) : reuse_or_empty(dy, dy.shape(), dy.dtype());
  gated_activation_backward(dy.device(), curve, gates, ups, dy, grads[gate], grads[up]);
}

void GatedActivation::rematerialize(const RematInputs<GatedActivation>& from, const Tensor& out) const {
  const Tensor &g = from.get<input(gate)>(), &u = from.get<input(up)>();
  const Operand* const ups = from.codes<input(up)>();  // undefined where gate and up are one tensor
  if (g.defined() && (u.defined() || ups == nullptr || !ups->defined()))
    return gated_activation_forward(out.device(), curve, g, u, out);
  gated_activation_of_codes(out.device(), curve, g.defined() ? Operand(g) : *from.codes<input(gate)>(),
                            u.defined() ? Operand(u) : *ups, from.first_row(), out);
}

}  // namespace lacuna
