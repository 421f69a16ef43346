// The kernels of all rules.
#include "optim/rules_cuda.h"

#include "core/block.h"
#include "ops/cuda/elements.h"
#include "ops/quantize/draws.h"
#include "ops/quantize/group_fit.h"

namespace lacuna::cuda {
namespace {

/// The results that the first kernel of an update leaves to the later ones.
template <class F>
struct Begun {
  std::uint64_t key;  // of the draws that round states; state k has key + k
  F formula;
  bool updates;  // whether anything happens
};
/// The results for parameter `index` of the table.
template <class F>
LACUNA_DEVICE Begun<F>& begun_of(const UpdatesOnCuda& what, std::int64_t index) {
  return *reinterpret_cast<Begun<F>*>(what.begun + static_cast<std::size_t>(index) * bytes_of_begun);
}

/// Counts the updates, unless a gradient or the loss of the step is not finite. A thread a parameter.
template <class Rule>
struct BeginUpdates {
  using F = decltype(std::declval<Rule>()(Rate{}, {}, 1));
  static_assert(sizeof(Begun<F>) <= bytes_of_begun);
  static constexpr int threads = 32;
  Rule rule;
  UpdatesOnCuda what;
  LACUNA_DEVICE void operator()(const Block<BeginUpdates>& block) const {
    const std::int64_t i = block.global_thread();
    if (i >= what.parameters.count) return;
    Begun<F>& begun = begun_of<F>(what, i);
    begun.updates = what.finite == nullptr || *what.finite != 0;
    if (!begun.updates) return;
    const UpdatedParameter& parameter = what.parameters.entries[i];
    if constexpr (!continues<Rule>) {
      if (i == 0 && what.updates != nullptr) *what.updates += static_cast<double>(what.parameters.count);
      ++*parameter.step;
    }
    const std::int64_t step = *parameter.step;
    begun.key = key_of_pass<Rule>(what.seed, step, parameter.site);
    begun.formula = rule_of(rule, i)(
        rate_of(what, parameter), {.factor = what.factor == nullptr ? 1.0F : *what.factor, .limit = what.limit}, step);
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
template <class F, int states, bool writes>
struct UpdateChunks {
  static constexpr int threads = 256;
  static_assert(chunk % state_block == 0);
  UpdatesOnCuda what;
  LACUNA_DEVICE void operator()(const Block<UpdateChunks>& block) const {
    const UpdatedParameter& of = what.parameters.of_chunk(block.index());
    const auto& begun = begun_of<F>(what, &of - what.parameters.entries);
    if (!begun.updates) return;
    const F formula = begun.formula;
    const std::uint64_t key = begun.key;
    const Chunk part(of, block.index());
    for (std::int64_t begin = part.begin + block.warp() * state_block; begin < part.end;
         begin += threads / warp_size * state_block)
      update(of, formula, key, begin + block.lane() * 8, block.lane() == 0);
  }

 private:
  /// Elements `first` to `first` + 7. All lanes of the warp take part.
  LACUNA_DEVICE void update(const UpdatedParameter& of, const F& formula, std::uint64_t key, std::int64_t first,
                            bool writes_range) const {
    const std::int64_t count = of.count;
    const bool half = of.gradient_type == DType::bf16;
    Eight parameter = open_parameter(of, first);
    Eight gradient = half ? Kept<bf16>(of.gradient, count).at(first) : Kept<float>(of.gradient, count).at(first);
    Eight state[states > 0 ? states : 1];
#pragma unroll
    for (int k = 0; k < states; ++k) state[k] = open(of.states[k], count, first);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if constexpr (states == 0) formula(parameter[i], gradient[i]);
      if constexpr (states == 1) formula(parameter[i], gradient[i], state[0][i]);
      if constexpr (states == 2) formula(parameter[i], gradient[i], state[0][i], state[1][i]);
      if constexpr (states == 4) formula(parameter[i], gradient[i], state[0][i], state[1][i], state[2][i], state[3][i]);
    }
    close_parameter(of, first, parameter, key + parameter_key);
    if constexpr (writes) {
      if (half)
        Written<bf16>(of.gradient, count).set(first, gradient);
      else
        Written<float>(of.gradient, count).set(first, gradient);
    }
#pragma unroll
    for (int k = 0; k < states; ++k)
      close(of.states[k], count, first, state[k], key + static_cast<std::uint64_t>(k), writes_range);
  }

  LACUNA_DEVICE Eight open_parameter(const UpdatedParameter& of, std::int64_t first) const {
    if (of.parameter_type == DType::f32) return Kept<float>(of.parameter, of.count).at(first);
    Eight eight = Kept<bf16>(of.parameter, of.count).at(first);
    if (of.compensation == nullptr) return eight;
    const Eight lost = Kept<bf16>(of.compensation, of.count).at(first);
#pragma unroll
    for (int i = 0; i < 8; ++i) eight[i] += lost[i];
    return eight;
  }
  LACUNA_DEVICE void close_parameter(const UpdatedParameter& of, std::int64_t first, const Eight& values,
                                     std::uint64_t key) const {
    if (of.parameter_type == DType::f32) return Written<float>(of.parameter, of.count).set(first, values);
    auto* const to = static_cast<bf16*>(of.parameter);
    if (of.compensation == nullptr) return round_to(to, of.count, first, values, key);
    for (int i = 0; i < 8; ++i) {
      if (first + i >= of.count) continue;
      const Compensated stored(values[i]);
      to[first + i] = stored.rounded;
      of.compensation[first + i] = stored.lost;
    }
  }

  /// Rounds up or down by draws.
  LACUNA_DEVICE void round_to(bf16* to, std::int64_t count, std::int64_t first, const Eight& values,
                              std::uint64_t key) const {
    const quant::EightDraws draws(quant::mixed_key(key), first);
    for (int i = 0; i < 8; ++i)
      if (first + i < count) to[first + i].bits = rounded_to_bf16(values[i], static_cast<std::uint32_t>(draws[i]));
  }

  LACUNA_DEVICE Eight open(const StoredState& state, std::int64_t count, std::int64_t first) const {
    if (state.precision == StatePrecision::f32) return Kept<float>(state.values, count).at(first);
    if (state.precision == StatePrecision::bf16) return Kept<bf16>(state.values, count).at(first);
    auto* const codes = static_cast<std::uint8_t*>(state.values);
    if (state.kind == StateValues::no_sign) return StateCodes<Logarithm>{codes, count}.at(first);
    return StateCodes<SignedRoot>{codes, count}.at(first);
  }
  LACUNA_DEVICE void close(const StoredState& state, std::int64_t count, std::int64_t first, const Eight& values,
                           std::uint64_t key, bool writes_range) const {
    if (state.precision == StatePrecision::f32) return Written<float>(state.values, count).set(first, values);
    const std::uint64_t mixed = quant::mixed_key(key);
    auto* const codes = static_cast<std::uint8_t*>(state.values);
    if (state.precision == StatePrecision::bf16) {
      round_to(static_cast<bf16*>(state.values), count, first, values, key);
    } else if (state.kind == StateValues::no_sign) {
      StateCodes<Logarithm>{codes, count}.set(first, values, mixed, writes_range);
    } else {
      StateCodes<SignedRoot>{codes, count}.set(first, values, mixed, writes_range);
    }
  }
};

}  // namespace

template <class Rule>
void update(Stream stream, const Rule& rule, const UpdatesOnCuda& what) {
  using Begin = BeginUpdates<Rule>;
  run(stream, divide_up(what.parameters.count, Begin::threads), Begin{rule, what});
  run(stream, what.parameters.chunks, UpdateChunks<typename Begin::F, Rule::states, writes_gradient<Rule>>{what});
}

}  // namespace lacuna::cuda

#define LACUNA_RULE(...)                                                       \
  namespace cuda {                                                             \
  template void update(Stream, const __VA_ARGS__&, const UpdatesOnCuda& what); \
  }
#include "optim/rules.h"
