// The kernels of all rules on cuda.
#include "optim/rules_cuda.h"

#include "optim/chunk_table.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"

#include <algorithm>
#include <span>
#include <vector>

namespace lacuna::cuda {
namespace {

ChunkTable<UpdatedParameter> table_of(std::span<const Update> updates) {
  std::vector<UpdatedParameter> entries;
  entries.reserve(updates.size());
  for (const Update& what : updates) {
    UpdatedParameter& entry = entries.emplace_back(
        UpdatedParameter{.parameter = what.parameter.raw(),
                         .parameter_type = what.parameter.dtype(),
                         .compensation = what.compensation.defined() ? what.compensation.data<bf16>() : nullptr,
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

template <class Rule>
void start_pass(const Rule& rule, std::span<const Update> updates) {
  const Device device = device_of(updates);
  const ChunkTable<UpdatedParameter> table = table_of(updates);
  const Tensor begun = Tensor::empty({std::ssize(updates), static_cast<std::int64_t>(bytes_of_begun)}, DType::u8,
                                     device, Purpose::workspace);
  const GradientClip& clip = updates.front().clip;
  update(stream_of(device), rule,
         {.parameters = table.table(),
          .factor = clip.factor.defined() ? clip.factor.data<const float>() : nullptr,
          .limit = clip.limit,
          .finite = clip.finite.defined() ? clip.finite.data<const std::int32_t>() : nullptr,
          .updates = clip.updates.defined() ? clip.updates.data<double>() : nullptr,
          .rate = clip.rate.defined() ? clip.rate.data<const double>() : nullptr,
          .seed = updates.front().seed,
          .begun = begun.raw()});
}

template <class Rule>
const RegisterRule<Rule> registered{rule_pass<Rule>, DeviceKind::cuda, start_pass<Rule>};

}  // namespace
}  // namespace lacuna::cuda

#define LACUNA_RULE(...)                                            \
  namespace cuda {                                                  \
  namespace {                                                       \
  template const RegisterRule<__VA_ARGS__> registered<__VA_ARGS__>; \
  }                                                                 \
  }
#include "optim/rules.h"
