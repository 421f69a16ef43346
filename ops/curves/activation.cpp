#include "ops/curves/activation.h"

#include "core/parallel.h"
#include "ops/curves/activation_kernels.h"
#include "ops/formulas.h"
#include "ops/quantize/sign_mask.h"
#include "ops/row_blocks.h"

namespace lacuna {
namespace {

const RegisterOp<Gelu> gelu;
const RegisterOp<Relu> relu;
const RegisterOp<Silu> silu;
const RegisterOp<QuickGelu> quick_gelu;
const RegisterOp<Sigmoid> sigmoid;
const RegisterOp<Tanh> tanh_op;

template <class Formula>
void apply_on_cpu(const Tensor& x, const Tensor& y) {
  with_float_type(y.dtype(), [&]<class T>(Type<T>) { map(y.count(), Formula{}, y.data<T>(), x.data<T>()); });
}

template <class Formula>
void backward_on_cpu(const Operand& saved, const Tensor& dy, const Tensor& dx) {
  const std::int64_t width = dy.shape().back();
  with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
    for_each_row_block(saved, dy.rows(), [&](const RowBlock& block) {
      const T* const in = dy.data<T>() + block.begin * width;
      T* const out = dx.data<T>() + block.begin * width;
      map((block.end - block.begin) * width, Formula{}, out, in, block.values<T>());
    });
  });
}

const RegisterKernel cpu_gelu_erf{gelu_erf, DeviceKind::cpu, apply_on_cpu<formula::GeluErf>};
const RegisterKernel cpu_gelu_tanh{gelu_tanh, DeviceKind::cpu, apply_on_cpu<formula::GeluTanh>};
const RegisterKernel cpu_relu{relu_forward, DeviceKind::cpu, apply_on_cpu<formula::Relu>};
const RegisterKernel cpu_silu{silu_forward, DeviceKind::cpu, apply_on_cpu<formula::Silu>};
const RegisterKernel cpu_quick_gelu{quick_gelu_forward, DeviceKind::cpu, apply_on_cpu<formula::QuickGelu>};
const RegisterKernel cpu_sigmoid{sigmoid_forward, DeviceKind::cpu, apply_on_cpu<formula::Sigmoid>};
const RegisterKernel cpu_tanh{tanh_forward, DeviceKind::cpu, apply_on_cpu<formula::Tanh>};

// On meta these allocate what row blocks are decoded into.
const RegisterKernel cpu_gelu_erf_backward{
    gelu_erf_backward, {DeviceKind::cpu, DeviceKind::meta}, backward_on_cpu<formula::GeluErfBackward>};
const RegisterKernel cpu_gelu_tanh_backward{
    gelu_tanh_backward, {DeviceKind::cpu, DeviceKind::meta}, backward_on_cpu<formula::GeluTanhBackward>};
const RegisterKernel cpu_silu_backward{
    silu_backward, {DeviceKind::cpu, DeviceKind::meta}, backward_on_cpu<formula::SiluBackward>};
const RegisterKernel cpu_quick_gelu_backward{
    quick_gelu_backward, {DeviceKind::cpu, DeviceKind::meta}, backward_on_cpu<formula::QuickGeluBackward>};
const RegisterKernel cpu_sigmoid_backward{
    sigmoid_backward, {DeviceKind::cpu, DeviceKind::meta}, backward_on_cpu<formula::SigmoidBackward>};
const RegisterKernel cpu_tanh_backward{
    tanh_backward, {DeviceKind::cpu, DeviceKind::meta}, backward_on_cpu<formula::TanhBackward>};

const RegisterKernel cpu_relu_backward{
    relu_backward, DeviceKind::cpu, [](const Tensor& y, const Tensor& dy, const Tensor& dx) {
      with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
        map(dy.count(), formula::ReluBackward{}, dx.data<T>(), dy.data<T>(), y.data<T>());
      });
    }};

Tensor applied(const ActivationKernel& kernel, const Tensor& x) {
  Tensor y = empty_like(x);
  kernel(y.device(), x, y);
  return y;
}

/// dx in place of dy if nobody else sees its memory.
Tensor gradient_of(const ActivationGradientKernel& kernel, const Tensor& dy, const Operand& saved) {
  Tensor dx = reuse_or_empty(dy, dy.shape(), dy.dtype());
  kernel(dx.device(), saved, dy, dx);
  return dx;
}

}  // namespace

Tensor Gelu::forward(std::span<const Tensor> inputs) const {
  return applied(form == Form::erf ? gelu_erf : gelu_tanh, inputs[x]);
}
void Gelu::backward(const Tensor& dy, const Saved<Gelu>& saved, Grads& grads) const {
  grads[x] = gradient_of(form == Form::erf ? gelu_erf_backward : gelu_tanh_backward, dy, saved.get<input(x)>());
}
void Gelu::rematerialize(const RematInputs<Gelu>& from, const Tensor& out) const {
  (form == Form::erf ? gelu_erf : gelu_tanh)(out.device(), from.get<input(x)>(), out);
}

Tensor Relu::forward(std::span<const Tensor> inputs) const { return applied(relu_forward, inputs[x]); }
void Relu::backward(Tensor dy, const Saved<Relu>& saved, Grads& grads) const {
  const Operand y = saved.get<output>();
  const Tensor dx = reuse_or_empty(dy, dy.shape(), dy.dtype());
  grads[x] = dx;
  if (const auto* const signs = y.as<SignForm>())
    quant::pass_where_set(dy, signs->bits, 0, dx);
  else
    relu_backward(dx.device(), y.whole(), dy, dx);
}
void Relu::rematerialize(const RematInputs<Relu>& from, const Tensor& out) const {
  if (!from.signs().defined()) return relu_forward(out.device(), from.get<input(x)>(), out);
  quant::rectify(from.get<input(x)>(), from.signs(), from.first_element(), out);
}

Tensor Silu::forward(std::span<const Tensor> inputs) const { return applied(silu_forward, inputs[x]); }
void Silu::backward(const Tensor& dy, const Saved<Silu>& saved, Grads& grads) const {
  grads[x] = gradient_of(silu_backward, dy, saved.get<input(x)>());
}
void Silu::rematerialize(const RematInputs<Silu>& from, const Tensor& out) const {
  silu_forward(out.device(), from.get<input(x)>(), out);
}

Tensor QuickGelu::forward(std::span<const Tensor> inputs) const { return applied(quick_gelu_forward, inputs[x]); }
void QuickGelu::backward(const Tensor& dy, const Saved<QuickGelu>& saved, Grads& grads) const {
  grads[x] = gradient_of(quick_gelu_backward, dy, saved.get<input(x)>());
}
void QuickGelu::rematerialize(const RematInputs<QuickGelu>& from, const Tensor& out) const {
  quick_gelu_forward(out.device(), from.get<input(x)>(), out);
}

Tensor Sigmoid::forward(std::span<const Tensor> inputs) const { return applied(sigmoid_forward, inputs[x]); }
void Sigmoid::backward(const Tensor& dy, const Saved<Sigmoid>& saved, Grads& grads) const {
  grads[x] = gradient_of(sigmoid_backward, dy, saved.get<output>());
}
void Sigmoid::rematerialize(const RematInputs<Sigmoid>& from, const Tensor& out) const {
  sigmoid_forward(out.device(), from.get<input(x)>(), out);
}

Tensor Tanh::forward(std::span<const Tensor> inputs) const { return applied(tanh_forward, inputs[x]); }
void Tanh::backward(const Tensor& dy, const Saved<Tanh>& saved, Grads& grads) const {
  grads[x] = gradient_of(tanh_backward, dy, saved.get<output>());
}
void Tanh::rematerialize(const RematInputs<Tanh>& from, const Tensor& out) const {
  tanh_forward(out.device(), from.get<input(x)>(), out);
}

}  // namespace lacuna
