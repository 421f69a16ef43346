// From the tensors of updates to the launchers of their kernels on cuda, for X_cuda.cpp files.
#pragma once

#include "optim/chunk_table.h"
#include "optim/optimizer.h"
#include "optim/update_cuda.h"

#include <algorithm>
#include <span>
#include <vector>

namespace lacuna::cuda {

inline ChunkTable<UpdatedParameter> table_of(std::span<const Update> updates) {
  std::vector<UpdatedParameter> entries;
  entries.reserve(updates.size());
  for (const Update& what : updates) {
    UpdatedParameter& entry = entries.emplace_back(UpdatedParameter{.parameter = what.parameter.data<float>(),
                                                                    .gradient = what.gradient.raw(),
                                                                    .gradient_type = what.gradient.dtype(),
                                                                    .count = what.parameter.count(),
                                                                    .first_chunk = 0,
                                                                    .states = {},
                                                                    .step = what.step.data<std::int64_t>(),
                                                                    .rate = what.rate,
                                                                    .site = what.site});
    expect(std::ssize(what.state) <= most_states, "an update on cuda has {} states at most", most_states);
    std::ranges::transform(what.state, entry.states, [](const OptimizerState& state) {
      return StoredState{.values = state.tensor().raw(), .precision = state.precision(), .kind = state.values()};
    });
  }
  return {std::move(entries), device_of(updates)};
}

/// Workspace for the scalars of each update: u8 [updates, bytes_of_begun].
inline Tensor begun_workspace(std::span<const Update> updates) {
  return Tensor::empty({std::ssize(updates), static_cast<std::int64_t>(bytes_of_begun)}, DType::u8, device_of(updates),
                       Purpose::workspace);
}

inline UpdatesOnCuda on_cuda(std::span<const Update> updates, const ChunkTable<UpdatedParameter>& table,
                             const Tensor& begun) {
  const GradientClip& clip = updates.front().clip;
  return {.parameters = table.table(),
          .factor = clip.factor.defined() ? clip.factor.data<const float>() : nullptr,
          .limit = clip.limit,
          .finite = clip.finite.defined() ? clip.finite.data<const std::int32_t>() : nullptr,
          .updates = clip.updates.defined() ? clip.updates.data<double>() : nullptr,
          .rate = clip.rate.defined() ? clip.rate.data<const double>() : nullptr,
          .seed = updates.front().seed,
          .begun = begun.raw()};
}

/// Updates by a rule.
template <class Rule>
void start_updates(const Rule& rule, std::span<const Update> updates) {
  const ChunkTable<UpdatedParameter> table = table_of(updates);
  const Tensor begun = begun_workspace(updates);
  update(stream_of(device_of(updates)), rule, on_cuda(updates, table, begun));
}

}  // namespace lacuna::cuda
