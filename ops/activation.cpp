#include "ops/activation.h"

#include "core/parallel.h"
#include "ops/formulas.h"

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

/// dx = formula(dy, saved), written over dy where nobody else sees it.
template <class Formula>
Tensor backward_of(const Formula& formula, const Tensor& dy, const Tensor& saved) {
  Tensor dx = reuse_or_empty(dy, dy.shape(), dy.dtype());
  launch(dy.device(), [&] {
    with_float_type(dy.dtype(),
                    [&]<class T>(Type<T>) { map(dy.count(), formula, dx.data<T>(), dy.data<T>(), saved.data<T>()); });
  });
  return dx;
}

}  // namespace

Tensor Gelu::forward(std::span<const Tensor> inputs) const {
  if (form == Form::erf) return applied(formula::GeluErf{}, inputs[x]);
  return applied(formula::GeluTanh{}, inputs[x]);
}
void Gelu::backward(Tensor dy, const Saved<Gelu>& saved, Grads& grads) const {
  const Tensor in = saved.get<input(x)>();
  grads[x] = form == Form::erf ? backward_of(formula::GeluErfBackward{}, dy, in)
                               : backward_of(formula::GeluTanhBackward{}, dy, in);
}
void Gelu::derive(const Derivation<Gelu>& from, const Tensor& out) const {
  if (form == Form::erf)
    apply(formula::GeluErf{}, out, from.get<input(x)>());
  else
    apply(formula::GeluTanh{}, out, from.get<input(x)>());
}

Tensor Relu::forward(std::span<const Tensor> inputs) const { return applied(formula::Relu{}, inputs[x]); }
void Relu::backward(Tensor dy, const Saved<Relu>& saved, Grads& grads) const {
  const Signs signs = saved.signs<output>();
  const Tensor dx = reuse_or_empty(dy, dy.shape(), dy.dtype());
  launch(dy.device(), [&] {
    with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
      signs.visit([&, in = dy.data<T>(), out = dx.data<T>()](auto positive) {
        parallel_for(dy.count(), 16384, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) out[i] = positive(i) ? in[i] : T{};
        });
      });
    });
  });
  grads[x] = dx;
}
void Relu::derive(const Derivation<Relu>& from, const Tensor& out) const {
  apply(formula::Relu{}, out, from.get<input(x)>());
}

Tensor Silu::forward(std::span<const Tensor> inputs) const { return applied(formula::Silu{}, inputs[x]); }
void Silu::backward(Tensor dy, const Saved<Silu>& saved, Grads& grads) const {
  grads[x] = backward_of(formula::SiluBackward{}, dy, saved.get<input(x)>());
}
void Silu::derive(const Derivation<Silu>& from, const Tensor& out) const {
  apply(formula::Silu{}, out, from.get<input(x)>());
}

Tensor Sigmoid::forward(std::span<const Tensor> inputs) const { return applied(formula::Sigmoid{}, inputs[x]); }
void Sigmoid::backward(Tensor dy, const Saved<Sigmoid>& saved, Grads& grads) const {
  grads[x] = backward_of(formula::SigmoidBackward{}, dy, saved.get<output>());
}
void Sigmoid::derive(const Derivation<Sigmoid>& from, const Tensor& out) const {
  apply(formula::Sigmoid{}, out, from.get<input(x)>());
}

Tensor Tanh::forward(std::span<const Tensor> inputs) const { return applied(formula::Tanh{}, inputs[x]); }
void Tanh::backward(Tensor dy, const Saved<Tanh>& saved, Grads& grads) const {
  grads[x] = backward_of(formula::TanhBackward{}, dy, saved.get<output>());
}
void Tanh::derive(const Derivation<Tanh>& from, const Tensor& out) const {
  apply(formula::Tanh{}, out, from.get<input(x)>());
}

}  // namespace lacuna
