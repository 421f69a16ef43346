// The op that docs/adding-an-op.md writes, as it stands there; it is not registered, since it has no kernel on cuda.
#include "core/kernel.h"
#include "core/op.h"
#include "core/parallel.h"
#include "ops/operand.h"
#include "ops/row_blocks.h"
#include "tests/ops/op_sample.h"

#include <cmath>

namespace lacuna {
namespace {

struct Softplus {
  enum Input { x };
  static constexpr std::string_view name = "softplus";
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {x}}};
  static constexpr std::array rematerializes{rows_of(input(x))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<Softplus>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<Softplus>& from, const Tensor& out) const;
};

/// y = log(1 + eˣ). x, y: [n].
constinit Kernel<void(const Tensor& x, const Tensor& y)> softplus_forward{"softplus"};
/// dx = dy · σ(x). All [..., C]; dx may be dy.
constinit Kernel<void(const Operand& x, const Tensor& dy, const Tensor& dx)> softplus_backward{"softplus backward"};

const RegisterKernel cpu_forward{softplus_forward, DeviceKind::cpu, [](const Tensor& x, const Tensor& y) {
                                   with_float_type(y.dtype(), [&]<class T>(Type<T>) {
                                     const auto f = [](auto v) {
                                       return std::max(v, v * 0) + std::log1p(std::exp(-std::abs(v)));
                                     };
                                     map(y.count(), f, y.data<T>(), x.data<T>());
                                   });
                                 }};
// On meta, backward allocates what row blocks are decoded into.
const RegisterKernel cpu_backward{
    softplus_backward, {DeviceKind::cpu, DeviceKind::meta}, [](const Operand& x, const Tensor& dy, const Tensor& dx) {
      const std::int64_t width = dy.shape().back();
      with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
        for_each_row_block(x, dy.rows(), [&](const RowBlock& block) {
          const auto f = [](auto d, auto v) { return d / (1 + std::exp(-v)); };
          map((block.end - block.begin) * width, f, dx.data<T>() + block.begin * width,
              dy.data<T>() + block.begin * width, block.values<T>());
        });
      });
    }};

Tensor Softplus::forward(std::span<const Tensor> inputs) const {
  Tensor y = empty_like(inputs[x]);
  softplus_forward(y.device(), inputs[x], y);
  return y;
}
void Softplus::backward(Tensor dy, const Saved<Softplus>& saved, Grads& grads) const {
  const Tensor dx = reuse_or_empty(dy, dy.shape(), dy.dtype());  // in place of dy if nobody else sees its memory
  softplus_backward(dx.device(), saved.get<input(x)>(), dy, dx);
  grads[x] = dx;
}
void Softplus::rematerialize(const RematInputs<Softplus>& from, const Tensor& out) const {
  softplus_forward(out.device(), from.get<input(x)>(), out);
}

const RegisterSample sample({.name = "softplus",
                             .op = bound(Softplus{}),
                             .inputs =
                                 [](DType dtype) {
                                   return std::vector{sample_values({3, 5, 37}, dtype, 1)};
                                 },
                             .differentiable = {0}});

}  // namespace
}  // namespace lacuna
