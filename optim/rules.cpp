// The kernels of all rules on the CPU.
#include "core/parallel.h"
#include "optim/formulas.h"
#include "optim/kernels.h"
#include "optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace lacuna {
namespace {

/// The scalars of an update, as the CPU's kernels read them.
struct CpuUpdate {
  std::int64_t step = 0;             // number of the update, from 1; 0: the parameter is not updated
  formula::CountedGradient counted;  // how gradients are scaled and clipped
  explicit operator bool() const { return step > 0; }
};
/// Counts the update, unless a gradient or the loss of the step is not finite, or it continues one that is counted.
CpuUpdate begin_on_cpu(const Update& what, bool continues) {
  const GradientClip& clip = what.clip;
  if (clip.finite.defined() && *clip.finite.data<std::int32_t>() == 0) return {};
  std::int64_t& step = *what.step.data<std::int64_t>();
  if (!continues) {
    ++step;
    if (clip.updates.defined()) ++*clip.updates.data<double>();
  }
  return {.step = step,
          .counted = {.factor = clip.factor.defined() ? *clip.factor.data<float>() : 1.0F, .limit = clip.limit}};
}

/// The elements of a parameter in f32, or in bf16 with what rounding lost.
class StoredParameter {
 public:
  explicit StoredParameter(const Update& what)
      : plain_(what.parameter.dtype() == DType::f32 ? what.parameter.data<float>() : nullptr),
        rounded_(plain_ == nullptr ? what.parameter.data<bf16>() : nullptr),
        lost_(what.compensation.defined() ? what.compensation.data<bf16>() : nullptr) {}
  bool in_bf16() const { return plain_ == nullptr; }

  /// Elements [begin, end) as floats: in place if stored as f32, otherwise in `scratch`.
  float* open(std::int64_t begin, std::int64_t end, float* scratch) const {
    if (!in_bf16()) return plain_ + begin;
    for (std::int64_t i = begin; i < end; ++i) scratch[i - begin] = static_cast<float>(rounded_[i]);
    if (lost_ != nullptr)
      for (std::int64_t i = begin; i < end; ++i) scratch[i - begin] += static_cast<float>(lost_[i]);
    return scratch;
  }
  /// Stores values from `open`.
  void close(std::int64_t begin, std::int64_t end, const float* values, std::uint64_t key) const {
    if (!in_bf16()) return;
    if (lost_ == nullptr) return round_to_bf16(values, begin, end - begin, key, rounded_ + begin);
    for (std::int64_t i = begin; i < end; ++i) {
      const Compensated stored(values[i - begin]);
      rounded_[i] = stored.rounded;
      lost_[i] = stored.lost;
    }
  }

 private:
  float* plain_;
  bf16 *rounded_, *lost_;
};

/// Calls `f(parameter, gradient, state...)` for each element, all floats by
/// reference, in one vectorized pass. Parameters, states and gradients that are not f32 are
/// converted block by block in scratch. `writes`: f stores its result in the
/// gradient's memory.
template <std::size_t states, bool writes, class F>
void update_elements(const F& f, const Update& what, std::uint64_t key) {
  constexpr std::int64_t block = OptimizerState::block;
  const StoredParameter parameter(what);
  const bool half = what.gradient.dtype() == DType::bf16;
  bool in_place = !half && !parameter.in_bf16();
  for (const OptimizerState& state : what.state) in_place = in_place && state.precision() == StatePrecision::f32;

  const auto pass = [&]<std::size_t... k>(std::int64_t begin, std::int64_t end, std::index_sequence<k...>) {
    std::array<std::array<float, block>, states + 2> scratch;
    float* gradient = scratch[states].data();
    if (half) {
      const bf16* const stored = what.gradient.data<bf16>() + begin;
      for (std::int64_t i = 0; i < end - begin; ++i) gradient[i] = static_cast<float>(stored[i]);
    } else {
      gradient = what.gradient.data<float>() + begin;
    }
    const std::array<float*, states> state{what.state[k].open(begin, end, scratch[k].data())...};
    float* const values = parameter.open(begin, end, scratch[states + 1].data());
    const auto loop = [&, n = end - begin](float* const p, float* const g, auto* const... s) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) f(p[i], g[i], s[i]...);
    };
    loop(values, gradient, state[k]...);
    parameter.close(begin, end, values, key + parameter_key);
    (what.state[k].close(begin, end, state[k], key + k), ...);
    if (writes && half) {
      bf16* const stored = what.gradient.data<bf16>() + begin;
      for (std::int64_t i = 0; i < end - begin; ++i) stored[i] = bf16(gradient[i]);
    }
  };
  parallel_for(
      what.parameter.count(), 16384,
      [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t step = in_place ? end - begin : block;
        for (std::int64_t i = begin; i < end; i += step)
          pass(i, std::min(end, i + step), std::make_index_sequence<states>());
      },
      block);
}

/// Updates by a rule (optim/rules.h), one after the other.
template <class Rule>
void update_on_cpu(const Rule& rule, std::span<const Update> updates) {
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const Update& what = updates[i];
    const CpuUpdate begun = begin_on_cpu(what, continues<Rule>);
    if (!begun) continue;
    const auto formula = rule_of(rule, static_cast<std::int64_t>(i))(what.rate, begun.counted, begun.step);
    update_elements<static_cast<std::size_t>(Rule::states), writes_gradient<Rule>>(
        formula, what, key_of_pass<Rule>(what.seed, begun.step, what.site));
  }
}

template <class Rule>
const RegisterRule<Rule> registered{rule_pass<Rule>, DeviceKind::cpu, update_on_cpu<Rule>};

}  // namespace
}  // namespace lacuna

#define LACUNA_RULE(...)                                            \
  namespace {                                                       \
  template const RegisterRule<__VA_ARGS__> registered<__VA_ARGS__>; \
  }
#include "optim/rules.h"
