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
const RegisterOp<HardSwish> hard_swish;
const RegisterOp<HardSigmoid> hard_sigmoid;
const RegisterOp<Relu6> relu6;
const RegisterOp<Sigmoid> sigmoid;
const RegisterOp<Tanh> tanh_op;
const RegisterOp<Elu> elu_op;

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

// On meta, backward allocates what row blocks are decoded into.
#define LACUNA_REGISTER(C)                                                                            \
  const RegisterKernel cpu_##C{curve_forward<formula::C>, DeviceKind::cpu, apply_on_cpu<formula::C>}; \
  const RegisterKernel cpu_##C##_backward{                                                            \
      curve_backward<formula::C>, {DeviceKind::cpu, DeviceKind::meta}, backward_on_cpu<formula::C##Backward>};
LACUNA_CURVES(LACUNA_REGISTER)

const RegisterKernel cpu_relu{relu_forward, DeviceKind::cpu, apply_on_cpu<formula::Relu>};
const RegisterKernel cpu_relu_backward{
    relu_backward, DeviceKind::cpu, [](const Tensor& y, const Tensor& dy, const Tensor& dx) {
      with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
        map(dy.count(), formula::ReluBackward{}, dx.data<T>(), dy.data<T>(), y.data<T>());
      });
    }};

struct Kernels {
  const ActivationKernel& forward;
  const ActivationGradientKernel& backward;
  const ActivationOfCodesKernel& of_codes;
};
template <class C>
constexpr Kernels kernels{curve_forward<C>, curve_backward<C>, curve_of_codes<C>};

const Kernels& kernels_of(const Gelu& op) {
  return op.form == Gelu::Form::erf ? kernels<formula::GeluErf> : kernels<formula::GeluTanh>;
}
const Kernels& kernels_of(const Silu&) { return kernels<formula::Silu>; }
const Kernels& kernels_of(const QuickGelu&) { return kernels<formula::QuickGelu>; }
const Kernels& kernels_of(const HardSwish&) { return kernels<formula::HardSwish>; }
const Kernels& kernels_of(const HardSigmoid&) { return kernels<formula::HardSigmoid>; }
const Kernels& kernels_of(const Relu6&) { return kernels<formula::Relu6>; }
const Kernels& kernels_of(const Sigmoid&) { return kernels<formula::Sigmoid>; }
const Kernels& kernels_of(const Tanh&) { return kernels<formula::Tanh>; }
const Kernels& kernels_of(const Elu&) { return kernels<formula::Elu>; }

Tensor applied(const ActivationKernel& kernel, const Tensor& x) {
  Tensor y = empty_like(x);
  kernel(y.device(), x, y);
  return y;
}

}  // namespace

template <class Op, Source from>
Tensor Curve<Op, from>::forward(std::span<const Tensor> inputs) const {
  return applied(kernels_of(static_cast<const Op&>(*this)).forward, inputs[x]);
}
template <class Op, Source from>
void Curve<Op, from>::backward(const Tensor& dy, const Saved<Op>& saved, Grads& grads) const {
  const Tensor dx = reuse_or_empty(dy, dy.shape(), dy.dtype());  // in place of dy if nobody else sees its memory
  kernels_of(static_cast<const Op&>(*this)).backward(dx.device(), saved.template get<from>(), dy, dx);
  grads[x] = dx;
}
template <class Op, Source from>
void Curve<Op, from>::rematerialize(const RematInputs<Op>& rows, const Tensor& out) const {
  const Kernels& kernels = kernels_of(static_cast<const Op&>(*this));
  if (const Operand* const codes = rows.template codes<input(x)>())
    kernels.of_codes(out.device(), *codes, rows.first_element(), out);
  else
    kernels.forward(out.device(), rows.template get<input(x)>(), out);
}

template struct Curve<Gelu, input(0)>;
template struct Curve<Silu, input(0)>;
template struct Curve<QuickGelu, input(0)>;
template struct Curve<HardSwish, input(0)>;
template struct Curve<HardSigmoid, input(0)>;
template struct Curve<Relu6, input(0)>;
template struct Curve<Sigmoid, output>;
template struct Curve<Tanh, output>;
template struct Curve<Elu, input(0)>;

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
  const std::int64_t first = from.first_element();
  const Operand* const codes = from.codes<input(x)>();
  if (codes != nullptr && from.signs().defined())
    quant::dequantize_rectified(codes->as<QuantizedForm>()->values, from.signs(), first, first + out.count(), out);
  else if (codes != nullptr)
    curve_of_codes<formula::Relu>(out.device(), *codes, first, out);
  else if (from.signs().defined())
    quant::rectify(from.get<input(x)>(), from.signs(), first, out);
  else
    relu_forward(out.device(), from.get<input(x)>(), out);
}

}  // namespace lacuna
