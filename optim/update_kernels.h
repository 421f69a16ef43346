// Kernels of optim/update_cuda.h, for .cu files.
#pragma once

#include "core/block.h"
#include "ops/cuda/elements.h"
#include "ops/quantize/draws.h"
#include "ops/quantize/group_fit.h"
#include "optim/update_cuda.h"

namespace lacuna::cuda {

/// What the first kernel of an update leaves to those after it.
template <class F>
struct Begun {
  std::uint64_t key;  // of the draws that round states; state k has key + k
  F formula;
  bool updates;  // whether anything happens
};

/// Counts the update, unless a gradient or the loss of the step is not finite.
template <class Rule>
struct BeginUpdate {
  using F = decltype(std::declval<Rule>()({}, 1));
  static_assert(sizeof(Begun<F>) <= bytes_of_begun);
  static constexpr int threads = 32;
  Rule rule;
  UpdateOnCuda what;
  LACUNA_DEVICE void operator()(const Block<BeginUpdate>& block) const {
    if (block.thread() != 0) return;
    auto& begun = *static_cast<Begun<F>*>(what.begun);
    begun.updates = what.finite == nullptr || *what.finite != 0;
    if (!begun.updates) return;
    if (what.updates != nullptr) ++*what.updates;
    const std::int64_t step = ++*what.step;
    begun.key = state_key(what.seed, step, what.site);
    begun.formula = rule({.factor = what.factor == nullptr ? 1.0F : *what.factor, .limit = what.limit}, step);
  }
};

/// Eight elements of a state in 8 bits. A warp has the elements of a block of states.
template <class Curve>
struct StateCodes {
  std::uint8_t* codes;  // [count], then the ranges
  std::int64_t count;

  LACUNA_DEVICE std::uint8_t* range_of(std::int64_t first) const { return codes + count + first / state_block * 4; }

  LACUNA_DEVICE Eight at(std::int64_t first) const {
    Eight eight;
    const std::uint8_t* const range = range_of(first);
    const StateLine line = line_of(
        {static_cast<std::uint16_t>(range[0] | range[1] << 8), static_cast<std::int16_t>(range[2] | range[3] << 8)});
#pragma unroll
    for (int i = 0; i < 8; ++i)
      eight[i] =
          first + i < count ? Curve::expand(static_cast<float>(codes[first + i]) * line.step + line.origin) : 0.0F;
    return eight;
  }

  /// `mixed`: of EightDraws. All lanes of the warp take part.
  LACUNA_DEVICE void set(std::int64_t first, const Eight& values, std::uint64_t mixed, bool writes_range) const {
    float compressed[8];
    float min = INFINITY, max = -INFINITY;
    bool finite = true;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      compressed[i] = Curve::compress(values[i]);
      if (first + i >= count) continue;
      finite = finite && std::abs(compressed[i]) < INFINITY;  // false of NaN
      min = compressed[i] < min ? compressed[i] : min;
      max = compressed[i] > max ? compressed[i] : max;
    }
    finite = ballot(finite) == 0xffffffffU;
    min = joined(min, [](float a, float b) { return a < b ? a : b; });
    max = joined(max, Larger{});
    quant::FittedParams params{0x7fc0, 0};  // all of the block decodes to NaN
    if (finite) {
      const StateRange range = state_range(Curve{}, min, max);
      params = quant::GroupFitter(8).fit(range.min, range.max).params;
    }
    if (writes_range) {
      const auto origin = static_cast<std::uint16_t>(params.origin);
      std::uint8_t* const range = range_of(first);
      range[0] = static_cast<std::uint8_t>(params.step);
      range[1] = static_cast<std::uint8_t>(params.step >> 8);
      range[2] = static_cast<std::uint8_t>(origin);
      range[3] = static_cast<std::uint8_t>(origin >> 8);
    }
    const StateLine line = line_of(params);
    const float per = 1 / line.step;
    const quant::EightDraws draws(mixed, first);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (first + i < count)
        codes[first + i] = line.step > 0 ? state_code(Curve{}, line, per, values[i], compressed[i],
                                                      static_cast<std::uint32_t>(draws[i]))
                                         : std::uint8_t{0};
  }

 private:
  LACUNA_DEVICE static StateLine line_of(const quant::FittedParams& params) {
    const float step = std::bit_cast<float>(static_cast<std::uint32_t>(params.step) << 16);
    return {step < 0 ? 0.0F : step, std::abs(step) * static_cast<float>(params.origin)};  // negative: a constant block
  }
};

/// A warp has the 256 elements of a block of states.
template <class F, int states, bool writes_gradient>
struct UpdateElements {
  static constexpr int threads = 256;
  UpdateOnCuda what;
  LACUNA_DEVICE void operator()(const Block<UpdateElements>& block) const {
    const auto& begun = *static_cast<const Begun<F>*>(what.begun);
    const std::int64_t count = what.count, begin = block.global_thread() / warp_size * state_block;
    if (!begun.updates || begin >= count) return;
    const std::int64_t first = begin + block.lane() * 8;
    const F formula = begun.formula;
    const std::uint64_t key = begun.key;
    const bool half = what.gradient_type == DType::bf16;
    Eight parameter = Kept<float>(what.parameter, count).at(first);
    Eight gradient = half ? Kept<bf16>(what.gradient, count).at(first) : Kept<float>(what.gradient, count).at(first);
    Eight state[states > 0 ? states : 1];
#pragma unroll
    for (int k = 0; k < states; ++k) state[k] = open(what.states[k], first);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if constexpr (states == 0) formula(parameter[i], gradient[i]);
      if constexpr (states == 1) formula(parameter[i], gradient[i], state[0][i]);
      if constexpr (states == 2) formula(parameter[i], gradient[i], state[0][i], state[1][i]);
      if constexpr (states == 4) formula(parameter[i], gradient[i], state[0][i], state[1][i], state[2][i], state[3][i]);
    }
    Written<float>(what.parameter, count).set(first, parameter);
    if constexpr (writes_gradient) {
      if (half)
        Written<bf16>(what.gradient, count).set(first, gradient);
      else
        Written<float>(what.gradient, count).set(first, gradient);
    }
#pragma unroll
    for (int k = 0; k < states; ++k)
      close(what.states[k], first, state[k], key + static_cast<std::uint64_t>(k), block.lane() == 0);
  }

 private:
  LACUNA_DEVICE Eight open(const StoredState& state, std::int64_t first) const {
    if (state.precision == StatePrecision::f32) return Kept<float>(state.values, what.count).at(first);
    if (state.precision == StatePrecision::bf16) return Kept<bf16>(state.values, what.count).at(first);
    auto* const codes = static_cast<std::uint8_t*>(state.values);
    if (state.kind == StateValues::no_sign) return StateCodes<Logarithm>{codes, what.count}.at(first);
    return StateCodes<SignedRoot>{codes, what.count}.at(first);
  }
  LACUNA_DEVICE void close(const StoredState& state, std::int64_t first, const Eight& values, std::uint64_t key,
                           bool writes_range) const {
    if (state.precision == StatePrecision::f32) return Written<float>(state.values, what.count).set(first, values);
    const std::uint64_t mixed = quant::splitmix64(quant::splitmix64(key));
    auto* const codes = static_cast<std::uint8_t*>(state.values);
    if (state.precision == StatePrecision::bf16) {
      const quant::EightDraws draws(mixed, first);
      auto* const to = static_cast<bf16*>(state.values) + first;
      for (int i = 0; i < 8; ++i)
        if (first + i < what.count) to[i].bits = rounded_to_bf16(values[i], static_cast<std::uint32_t>(draws[i]));
    } else if (state.kind == StateValues::no_sign) {
      StateCodes<Logarithm>{codes, what.count}.set(first, values, mixed, writes_range);
    } else {
      StateCodes<SignedRoot>{codes, what.count}.set(first, values, mixed, writes_range);
    }
  }
};

template <class Rule>
void begin_update(Stream stream, const Rule& rule, const UpdateOnCuda& what) {
  run(stream, 1, BeginUpdate<Rule>{rule, what});
}
template <class F, int states, bool writes_gradient = false>
void update_elements(Stream stream, const UpdateOnCuda& what) {
  using K = UpdateElements<F, states, writes_gradient>;
  run(stream, divide_up(what.count, std::int64_t{K::threads} * 8), K{what});
}

template <class Rule>
void update(Stream stream, const Rule& rule, const UpdateOnCuda& what) {
  begin_update(stream, rule, what);
  update_elements<typename BeginUpdate<Rule>::F, Rule::states>(stream, what);
}

}  // namespace lacuna::cuda
