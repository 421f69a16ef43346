// Plans of cuDNN for convolutions and attention. Its frontend, a library of headers, is included by cudnn_plans.cpp
// alone: it takes half a minute to compile.
#pragma once

#include "ops/cuda_libraries.h"
#include "ops/dnn_cuda.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct cudnnContext;

namespace lacuna::cuda {

/// Why cuDNN cannot be used, and which package brings it; empty if it can.
const std::string& cudnn_problem();
/// For add_cuda_libraries.
CudaLibrary cudnn_state();

/// The target of plans: the device of a handle, or one that is described (cuDNN's JSON), on any machine.
struct PlanTarget {
  cudnnContext* handle = nullptr;
  std::string description{};
};

class CudnnPlan {
 public:
  virtual ~CudnnPlan() = default;
  virtual std::int64_t workspace() const = 0;
  /// As cuDNN calls it.
  virtual std::string name() const = 0;
  /// Names of plans for the same, as the heuristic likes them: at most as many, none that planning leaves out.
  virtual std::vector<std::string> names(int most) = 0;
  /// Takes the plan of that name from now on. False: there is none among the first ones of the heuristic.
  virtual bool take(const std::string& name) = 0;
  /// `pointers` in the order of the plan's tensors: convolutions: first, second, result; attention: q, k, v, y,
  /// log_sums, dy, dq, dk, dv for backward, and what there is of lengths, offsets, mask and its scales.
  virtual void run(cudnnContext* handle, const std::vector<void*>& pointers, void* workspace) const = 0;
};

/// A plan, or in `problem` why there is none: none that has the same bits every run and takes no more than
/// library_workspace, of attention workspace_for.
struct Planned {
  std::unique_ptr<CudnnPlan> plan{};
  std::string problem{};
};
Planned plan_of(const PlanTarget& target, const Convolution& what);
Planned plan_of(const PlanTarget& target, const DenseAttention& what);

}  // namespace lacuna::cuda
