#include "ops/low_rank_linear.h"

#include "ops/kernels/gemm.h"
#include "ops/linear.h"
#include "ops/operand.h"

namespace lacuna {
namespace {

const RegisterOp<LowRankLinear> low_rank_linear;

/// What the backward of Linear reads: an input and its weight.
template <int In, int Weight>
class LinearSaved final : public SavedTensors {
 public:
  explicit LinearSaved(const Saved<LowRankLinear>& saved) : saved_(saved) {}
  Operand operand(std::size_t row) const override {
    return row == 0 ? saved_.get<input(In)>() : saved_.get<input(Weight)>();
  }
  Shape shape(std::size_t row) const override {
    return row == 0 ? saved_.shape<input(In)>() : saved_.shape<input(Weight)>();
  }

 private:
  const Saved<LowRankLinear>& saved_;
};

}  // namespace

std::int64_t LowRankLinear::macs(std::span<const Shape> inputs, const Shape& y) const {
  return y.count() * (inputs[weight].back() + inputs[up].back());
}

Tensor LowRankLinear::forward(std::span<const Tensor> inputs) const {
  const Tensor &w = inputs[weight], &low = inputs[z], &b = inputs[up];
  expect(b.shape().rank() == 2 && b.shape()[0] == w.shape()[0] && low.shape() == inputs[x].shape().with_back(b.shape()[1]),
         "low_rank_linear: expected z {} and up [{}, {}] for x {} and a weight {}, got {} and {}",
         inputs[x].shape().with_back(b.shape().back()), w.shape()[0], b.shape().back(), inputs[x].shape(), w.shape(),
         low.shape(), b.shape());
  const std::array plain{inputs[x], w, inputs[bias]};
  Tensor y = Linear{}.forward(plain);
  gemm(Matrix(low), Matrix(b).t(), Matrix(y), {.alpha = scale, .add = true});
  return y;
}

void LowRankLinear::backward(Tensor dy, const Saved<LowRankLinear>& saved, Grads& grads) const {
  if (grads.wanted(up)) {
    const Tensor low = saved.get<input(z)>().whole();
    grads[up] = Tensor::empty({dy.shape().back(), low.shape().back()}, compute_type(dy.dtype()), dy.device());
    gemm(Matrix(dy).t(), Matrix(low), Matrix(grads[up]), {.alpha = scale});
  }
  if (grads.wanted(z)) {
    const Tensor b = saved.get<input(up)>().whole();
    const bool add = grads[z].defined();
    if (!add) grads[z] = Tensor::empty(dy.shape().with_back(b.shape()[1]), dy.dtype(), dy.device());
    gemm(Matrix(dy), Matrix(b), Matrix(grads[z]), {.alpha = scale, .add = add});
  }
  InputSet wanted;  // of Linear
  for (const int one : {x, weight, bias})
    if (grads.wanted(one)) wanted.insert(one);
  if (wanted.empty()) return;
  Grads plain(3, wanted);
  plain[Linear::x] = grads[x];
  grads[x] = {};
  Linear{}.backward(std::move(dy), Saved<Linear>(LinearSaved<x, weight>(saved)), plain);
  for (const int one : {x, weight, bias})
    if (grads.wanted(one)) grads[one] = plain[one];
}

}  // namespace lacuna
