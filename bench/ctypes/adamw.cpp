// A C interface to AdamW's step, on memory that the caller can access: bench/optimizer.py times it alternately with
// PyTorch's on the same arrays. An error terminates the program.
#include "bench/matrices.h"
#include "core/parallel.h"
#include "optim/optimizer.h"

namespace {

using namespace lacuna;

struct Run {
  Run(std::int64_t count, const Shape& shape) : model(count, shape), optimizer(make_optimizer("adamw", {}, model)) {}
  bench::Matrices model;
  std::unique_ptr<Optimizer> optimizer;
};

}  // namespace

extern "C" {

/// Creates `count` parameters [rows, columns] with filled gradients and state.
void* adamw_create(std::int64_t count, std::int64_t rows, std::int64_t columns, int threads) noexcept {
  set_threads(threads);
  return std::make_unique<Run>(count, Shape{rows, columns}).release();
}

float* adamw_values(void* run, std::int64_t parameter) noexcept {
  return static_cast<Run*>(run)->model.weights[static_cast<std::size_t>(parameter)]->tensor().data<float>();
}
float* adamw_gradient(void* run, std::int64_t parameter) noexcept {
  return static_cast<Run*>(run)->model.weights[static_cast<std::size_t>(parameter)]->grad().data<float>();
}
/// Returns a state tensor by its name in torch.optim, such as `exp_avg`; null if the parameter has no such state.
float* adamw_state(void* run, std::int64_t parameter, const char* name) noexcept {
  for (const Optimizer::StateTensor& state : static_cast<Run*>(run)->optimizer->state())
    if (state.name == fmt::format("weight{}.{}", parameter, name)) return state.tensor.data<float>();
  return nullptr;
}

void adamw_step(void* run, double lr) noexcept { static_cast<Run*>(run)->optimizer->step(lr); }

void adamw_destroy(void* run) noexcept { delete static_cast<Run*>(run); }

}  // extern "C"
