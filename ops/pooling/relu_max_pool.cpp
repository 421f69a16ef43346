#include "ops/pooling/relu_max_pool.h"

#include "ops/curves/activation.h"
#include "ops/operand.h"
#include "ops/pooling/pool.h"

namespace lacuna {
namespace {

const RegisterOp<ReluMaxPool2d> relu_max_pool;

MaxPool2d pool_of(const ReluMaxPool2d& op) {
  return {.kernel = op.kernel, .stride = op.stride, .padding = op.padding, .height = op.height, .width = op.width};
}

/// The one tensor that an inner op reads.
template <Source from>
class Inner final : public SavedTensors {
 public:
  explicit Inner(const Saved<ReluMaxPool2d>& saved) : saved_(saved) {}
  Operand operand(std::size_t) const override { return saved_.get<from>(); }
  Shape shape(std::size_t) const override { return saved_.shape<from>(); }

 private:
  const Saved<ReluMaxPool2d>& saved_;
};

}  // namespace

Tensor ReluMaxPool2d::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  const std::array pooled{pool_of(*this).forward(inputs, extra_outputs)};
  return Relu{}.forward(pooled);
}

void ReluMaxPool2d::backward(Tensor dy, const Saved<ReluMaxPool2d>& saved, Grads& grads) const {
  const Inner<output> signs(saved);
  const Inner<extra_output(0)> places(saved);
  Grads passed(1, {Relu::x});
  Relu{}.backward(std::move(dy), Saved<Relu>(signs), passed);
  pool_of(*this).backward(std::move(passed[Relu::x]), Saved<MaxPool2d>(places), grads);
}

}  // namespace lacuna
