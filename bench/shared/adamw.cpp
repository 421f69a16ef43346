// AdamW's step for a program in another language to call, on memory that it can reach: bench/optimizer.py times it in
// turn with PyTorch's on the very same arrays.
#include "core/parallel.h"
#include "optim/optimizer.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

namespace {

using namespace lacuna;

struct Matrices : Module {
  Matrices(std::int64_t count, const Shape& shape) : Module(ModelContext{}) {
    for (std::int64_t i = 0; i < count; ++i) {
      weights.push_back(std::make_unique<Parameter>(*this, fmt::format("weight{}", i), shape,
                                                    [](const Tensor& tensor, RandomStream) { tensor.fill(0.02); }));
      weights.back()->set_grad(Tensor::full(shape, 0.001, DType::f32, Device::cpu, Purpose::gradients));
    }
  }
  std::vector<std::unique_ptr<Parameter>> weights;
};

struct Run {
  Run(std::int64_t count, const Shape& shape) : model(count, shape), optimizer(make_optimizer("adamw", {}, model)) {}
  Matrices model;
  std::unique_ptr<Optimizer> optimizer;
};

}  // namespace

extern "C" {

/// `count` parameters [rows, columns] with gradients and state, filled.
void* adamw_create(std::int64_t count, std::int64_t rows, std::int64_t columns, int threads) {
  set_threads(threads);
  return new Run(count, {rows, columns});
}

/// The array of one parameter: its values, its gradient, or what stands first or second in its state.
float* adamw_values(void* run, std::int64_t parameter) {
  return static_cast<Run*>(run)->model.weights[static_cast<std::size_t>(parameter)]->tensor().data<float>();
}
float* adamw_gradient(void* run, std::int64_t parameter) {
  return static_cast<Run*>(run)->model.weights[static_cast<std::size_t>(parameter)]->grad().data<float>();
}
/// Null where the parameter has no such state.
float* adamw_state(void* run, std::int64_t parameter, const char* name) {
  for (const Optimizer::StateTensor& state : static_cast<Run*>(run)->optimizer->state())
    if (state.name == fmt::format("weight{}.{}", parameter, name)) return state.tensor.data<float>();
  return nullptr;
}

void adamw_step(void* run, double lr) { static_cast<Run*>(run)->optimizer->step(lr); }

void adamw_destroy(void* run) { delete static_cast<Run*>(run); }

}  // extern "C"
