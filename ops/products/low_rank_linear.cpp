#include "ops/products/low_rank_linear.h"

#include "ops/operand.h"
#include "ops/products/gemm.h"
#include "ops/products/linear.h"

namespace lacuna {
namespace {

const RegisterOp<LowRankLinear> low_rank_linear;

/// The saved tensors of Linear's backward: an input and its weight.
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

/// The gradients of one pair.
template <int Z, int Up>
void pair_backward(const LowRankLinear& op, std::size_t pair, const Tensor& dy, const Saved<LowRankLinear>& saved,
                   Grads& grads) {
  const std::int64_t first = op.first[pair], columns = op.columns[pair];
  const Matrix own = Matrix(dy).column_range(first, first + columns);
  if (grads.wanted(Up)) {
    const Tensor low = saved.get<input(Z)>().whole();
    const Shape shape{columns, low.shape().back()};
    if (dy.rows() == 0) {
      grads[Up] = Tensor::zeros(shape, compute_type(dy.dtype()), dy.device());
    } else {
      grads[Up] = Tensor::empty(shape, compute_type(dy.dtype()), dy.device());
      gemm(own.t(), Matrix(low), Matrix(grads[Up]), {.alpha = op.scale});
    }
  }
  if (grads.wanted(Z)) {
    const Tensor up = saved.get<input(Up)>().whole();
    const bool add = grads[Z].defined();
    if (!add) grads[Z] = Tensor::empty(dy.shape().with_back(up.shape()[1]), dy.dtype(), dy.device());
    gemm(own, Matrix(up), Matrix(grads[Z]), {.alpha = op.scale, .add = add});
  }
}

}  // namespace

std::int64_t LowRankLinear::macs(std::span<const Shape> inputs, const Shape& y) const {
  std::int64_t count = y.count() * inputs[weight].back();
  for (std::size_t up = up0; up < inputs.size(); up += 2)
    if (inputs[up].rank() == 2) count += y.count() / y.back() * inputs[up].count();
  return count;
}

Tensor LowRankLinear::forward(std::span<const Tensor> inputs) const {
  const Tensor& w = inputs[weight];
  const std::array plain{inputs[x], w, inputs[bias]};
  Tensor y = Linear{}.forward(plain);
  for (std::size_t pair = 0; pair < first.size(); ++pair) {
    const Tensor &low = inputs[z0 + 2 * pair], &up = inputs[up0 + 2 * pair];
    if (!low.defined()) continue;
    expect(up.shape().rank() == 2 && up.shape()[0] == columns[pair] && first[pair] >= 0 &&
               first[pair] + columns[pair] <= w.shape()[0] && low.shape() == inputs[x].shape().with_back(up.shape()[1]),
           "low_rank_linear: expected z {} and an up of {} rows for x {} and columns from {} on of {}, got {} and {}",
           inputs[x].shape().with_back(up.shape().back()), columns[pair], inputs[x].shape(), first[pair], w.shape()[0],
           low.shape(), up.shape());
    gemm(Matrix(low), Matrix(up).t(), Matrix(y).column_range(first[pair], first[pair] + columns[pair]),
         {.alpha = scale, .add = true});
  }
  return y;
}

void LowRankLinear::backward(Tensor dy, const Saved<LowRankLinear>& saved, Grads& grads) const {
  pair_backward<z0, up0>(*this, 0, dy, saved, grads);
  pair_backward<z1, up1>(*this, 1, dy, saved, grads);
  pair_backward<z2, up2>(*this, 2, dy, saved, grads);
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
