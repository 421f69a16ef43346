// From the tensors of an update to the launchers of its kernels on cuda, for X_cuda.cpp files.
#pragma once

#include "core/backend.h"
#include "optim/optimizer.h"
#include "optim/update_cuda.h"

#include <algorithm>

namespace lacuna::cuda {

/// `begun`: u8 [bytes_of_begun], workspace.
inline UpdateOnCuda on_cuda(const Update& what, const Tensor& begun) {
  const GradientClip& clip = what.clip;
  UpdateOnCuda there{.parameter = what.parameter.data<float>(),
                     .gradient = what.gradient.raw(),
                     .gradient_type = what.gradient.dtype(),
                     .count = what.parameter.count(),
                     .states = {},
                     .step = what.step.data<std::int64_t>(),
                     .factor = clip.factor.defined() ? clip.factor.data<const float>() : nullptr,
                     .limit = clip.limit,
                     .finite = clip.finite.defined() ? clip.finite.data<const std::int32_t>() : nullptr,
                     .updates = clip.updates.defined() ? clip.updates.data<std::int64_t>() : nullptr,
                     .seed = what.seed,
                     .site = what.site,
                     .begun = begun.raw()};
  expect(std::ssize(what.state) <= most_states, "an update on cuda has {} states at most", most_states);
  std::ranges::transform(what.state, there.states, [](const OptimizerState& state) {
    return StoredState{.values = state.tensor().raw(), .precision = state.precision(), .kind = state.values()};
  });
  return there;
}

inline Tensor begun_workspace(const Update& what) {
  return Tensor::empty({static_cast<std::int64_t>(bytes_of_begun)}, DType::u8, what.parameter.device(),
                       Purpose::workspace);
}

/// One update by a rule.
template <class Rule>
void start_update(const Rule& rule, const Update& what) {
  const Tensor begun = begun_workspace(what);
  update(stream_of(what.parameter.device()), rule, on_cuda(what, begun));
}

}  // namespace lacuna::cuda
