// A softmax over blocks of classes (ops/losses/class_sums.h).
#include "ops/losses/class_sums.h"
#include "autograd/apply.h"
#include "autograd/tape.h"
#include "core/coded/codec.h"
#include "ops/losses/linear_cross_entropy.h"
#include "ops/products/gemm.h"
#include "tests/ops/op_run.h"

#include <doctest/doctest.h>

#include <limits>

namespace lacuna {
namespace {

Tensor labels_of(std::vector<std::int64_t> values) {
  return Tensor::from(std::span<const std::int64_t>(values), {std::ssize(values)});
}

/// Loss and gradient of x [n, K] with classes absorbed up to `step` at a time, by kernels alone.
std::vector<Tensor> in_blocks(Device device, const ClassTargets& targets, std::int64_t step, const Tensor& x,
                              const Tensor& w, const Tensor& labels) {
  const std::int64_t n = x.rows(), width = x.shape().back();
  const auto empty = [&](const Shape& shape) { return Tensor::empty(shape, x.dtype(), device); };
  const Tensor sums = Tensor::zeros({class_sum_count, n}, x.dtype(), device), running = empty({n, width}),
               of_labels = empty({n, width}), gradient = empty({n, width}), sum = Tensor::zeros({}, DType::f64, device),
               scale = Tensor::full({}, 1, x.dtype(), device);
  sums.leading(0, 1).fill(-std::numeric_limits<double>::infinity());
  for (std::int64_t first = 0; first < targets.classes; first += step) {
    const std::int64_t end = std::min(targets.classes, first + step);
    const Tensor block = w.leading(first, end), logits = empty({n, end - first});
    gemm(Matrix(x), Matrix(block).t(), Matrix(logits));
    absorb_classes(device, targets, first, true, labels, logits, sums, first > 0 ? running : Tensor());
    gemm(Matrix(logits), Matrix(block), Matrix(running), {.add = first > 0});
    take_label_rows(device, first, labels, block, of_labels);
  }
  add_class_losses(device, targets, labels, sums, sum);
  class_gradient(device, targets, scale, labels, sums, running, of_labels, gradient);
  return {sum, gradient};
}

}  // namespace

TEST_CASE("class sums: blocks of classes give the loss and gradient of all classes at once, on every device") {
  const std::int64_t n = 5, classes = 37, width = 9;
  for (const Device device : {Device::cpu, Device::cuda}) {
    const Tensor x = sample_values({n, width}, DType::f32, 1, -3, 3).to(device),
                 w = sample_values({classes, width}, DType::f32, 2, -3, 3).to(device),
                 labels = labels_of({36, 0, -100, 17, 5}).to(device);
    const ClassTargets targets{classes, -100, 0, 0};
    const std::vector<Tensor> whole = in_blocks(device, targets, classes, x, w, labels);
    for (const std::int64_t step : {1, 8, 36}) {
      const std::vector<Tensor> parts = in_blocks(device, targets, step, x, w, labels);
      for (std::size_t i = 0; i < whole.size(); ++i) CHECK(relative_error(parts[i], whole[i]) < 1e-6);
    }
    for (const double value : whole[1].row_range(2, 3).to_vector()) CHECK(value == 0);  // its label counts nothing
  }
}

TEST_CASE("class sums: the op for a frozen weight gives the gradient of the trained one with several blocks") {
  const std::int64_t n = 48, classes = 90001;  // two blocks of classes, the last one odd
  const Tensor x = sample_values({n, 3}, DType::f64, 1, -4, 4), w = sample_values({classes, 3}, DType::f64, 2, -4, 4),
               b = sample_values({classes}, DType::f64, 3);
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back(i % 5 == 2 ? -100 : i * 7919 * 13 % classes);
  const Tensor labels = labels_of(ids);
  const auto run = [&](const auto& op) {
    const std::unique_ptr<MemoryPolicy> keep = make_policy("keep");
    Tape tape(*keep);
    const Recording recording(tape);
    const Variable leaf(x, true);
    Variable loss = apply(op, leaf, Variable(w), Variable(b), Variable(labels));
    const double value = loss.tensor().item();
    tape.backward(std::move(loss));
    return std::pair(value, leaf.grad());
  };
  for (const double cap : {0.0, 5.0}) {
    const auto [loss, gradient] = run(LinearCrossEntropy{.soft_cap = cap});
    const auto [frozen_loss, frozen_gradient] = run(FrozenLinearCrossEntropy{{.soft_cap = cap}});
    CHECK(frozen_loss == doctest::Approx(loss).epsilon(1e-12));
    CHECK(relative_error(frozen_gradient, gradient) < 1e-11);
  }
}

}  // namespace lacuna
