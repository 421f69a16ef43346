#include "ops/activation.h"

#include "core/parallel.h"
#include "ops/formulas.h"
#include "ops/quantize/sign_mask.h"
#include "ops/row_blocks.h"

namespace lacuna {
namespace {

const RegisterOp<Gelu> gelu;
const RegisterOp<Relu> relu;
const RegisterOp<Silu> silu;
const RegisterOp<Sigmoid> sigmoid;
const RegisterOp<Tanh> tanh_op;

template <class Formula>
void apply(const Formula& formula, const Tensor& out, const Tensor& in) {
  launch(out.device(), [&] {
    with_float_type(out.dtype(), [&]<class T>(Type<T>) { map(out.count(), formula, out.data<T>(), in.data<T>()); });
  });
}

template <class Formula>
Tensor applied(const Formula& formula, const Tensor& x) {
  Tensor y = empty_like(x);
  apply(formula, y, x);
  return y;
}

/// dx = formula(dy, saved), run by run, written over dy where nobody else sees it.
template <Source from, class Op, class Formula>
Tensor backward_of(const Formula& formula, const Tensor& dy, const Saved<Op>& saved) {
  Tensor dx = reuse_or_empty(dy, dy.shape(), dy.dtype());
  const std::int64_t width = dy.shape().back();
  with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
    for_each_row_block(saved.template get<from>(), dy.rows(), [&](const RowBlock& run) {
      const T* const in = dy.data<T>() + run.begin * width;
      T* const out = dx.data<T>() + run.begin * width;
      map((run.end - run.begin) * width, formula, out, in, run.values<T>());
    });
  });
  return dx;
}

}  // namespace

Tensor Gelu::forward(std::span<const Tensor> inputs) const {
  if (form == Form::erf) return applied(formula::GeluErf{}, inputs[x]);
  return applied(formula::GeluTanh{}, inputs[x]);
}
void Gelu::backward(const Tensor& dy, const Saved<Gelu>& saved, Grads& grads) const {
  grads[x] = form == Form::erf ? backward_of<input(x)>(formula::GeluErfBackward{}, dy, saved)
                               : backward_of<input(x)>(formula::GeluTanhBackward{}, dy, saved);
}
void Gelu::rematerialize(const RematInputs<Gelu>& from, const Tensor& out) const {
  if (form == Form::erf)
    apply(formula::GeluErf{}, out, from.get<input(x)>());
  else
    apply(formula::GeluTanh{}, out, from.get<input(x)>());
}

Tensor Relu::forward(std::span<const Tensor> inputs) const { return applied(formula::Relu{}, inputs[x]); }
void Relu::backward(Tensor dy, const Saved<Relu>& saved, Grads& grads) const {
  const Operand y = saved.get<output>();
  const Tensor dx = reuse_or_empty(dy, dy.shape(), dy.dtype());
  grads[x] = dx;
  if (const auto* const signs = y.as<SignForm>()) return quant::pass_where_set(dy, signs->bits, 0, dx);
  const Tensor values = y.whole();
  launch(dy.device(), [&] {
    with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
      map(dy.count(), formula::ReluBackward{}, dx.data<T>(), dy.data<T>(), values.data<T>());
    });
  });
}
void Relu::rematerialize(const RematInputs<Relu>& from, const Tensor& out) const {
  if (!from.signs().defined()) return apply(formula::Relu{}, out, from.get<input(x)>());
  quant::rectify(from.get<input(x)>(), from.signs(), from.first_element(), out);
}

Tensor Silu::forward(std::span<const Tensor> inputs) const { return applied(formula::Silu{}, inputs[x]); }
void Silu::backward(const Tensor& dy, const Saved<Silu>& saved, Grads& grads) const {
  grads[x] = backward_of<input(x)>(formula::SiluBackward{}, dy, saved);
}
void Silu::rematerialize(const RematInputs<Silu>& from, const Tensor& out) const {
  apply(formula::Silu{}, out, from.get<input(x)>());
}

Tensor Sigmoid::forward(std::span<const Tensor> inputs) const { return applied(formula::Sigmoid{}, inputs[x]); }
void Sigmoid::backward(const Tensor& dy, const Saved<Sigmoid>& saved, Grads& grads) const {
  grads[x] = backward_of<output>(formula::SigmoidBackward{}, dy, saved);
}
void Sigmoid::rematerialize(const RematInputs<Sigmoid>& from, const Tensor& out) const {
  apply(formula::Sigmoid{}, out, from.get<input(x)>());
}

Tensor Tanh::forward(std::span<const Tensor> inputs) const { return applied(formula::Tanh{}, inputs[x]); }
void Tanh::backward(const Tensor& dy, const Saved<Tanh>& saved, Grads& grads) const {
  grads[x] = backward_of<output>(formula::TanhBackward{}, dy, saved);
}
void Tanh::rematerialize(const RematInputs<Tanh>& from, const Tensor& out) const {
  apply(formula::Tanh{}, out, from.get<input(x)>());
}

}  // namespace lacuna
