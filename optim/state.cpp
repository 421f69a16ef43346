#include "optim/state.h"

#include "ops/quantize/affine_kernels.h"
#include "ops/quantize/group_params.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace lacuna {
namespace {

constexpr std::int64_t block = OptimizerState::block;
constexpr int bits = 8;
static_assert(block % quant::block == 0);

template <class F>
void with_curve(StateValues values, const F& f) {
  if (values == StateValues::no_sign)
    f(Logarithm{});
  else
    f(SignedRoot{});
}

/// Quantizes values [count] of one block, from element `begin` on.
template <class Curve>
void encode(Curve curve, const float* values, std::int64_t begin, std::int64_t count, std::uint64_t key,
            std::uint8_t* codes, quant::GroupParams& stored) {
  std::array<float, block> compressed;
  for (std::int64_t i = 0; i < count; ++i) compressed[static_cast<std::size_t>(i)] = curve.compress(values[i]);
  const quant::Observed found = quant::observe(compressed.data(), count);
  const StateRange range = state_range(curve, found.range.min, found.range.max);
  stored = found.finite ? quant::ParamFitter(bits).fit({range.min, range.max}) : quant::not_finite();
  const quant::Scale scale = quant::scale_of(stored, bits);
  if (!(scale.step > 0)) {
    std::fill_n(codes, count, std::uint8_t{0});
    return;
  }
  const StateLine line{static_cast<float>(scale.step), static_cast<float>(scale.origin)};
  const float per = 1 / line.step;
  quant::Draws draws(key, quant::Rounding::stochastic);
  for (std::int64_t first = 0; first < count; first += quant::block) {
    const auto& draw = draws.of_block((begin + first) / quant::block);
    const std::int64_t length = std::min(quant::block, count - first);
    const float *const x = values + first, *const y = compressed.data() + first;
    std::uint8_t* const out = codes + first;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < length; ++i)
      out[i] = state_code(curve, line, per, x[i], y[i], draw[static_cast<std::size_t>(i)]);
  }
}

template <class Curve>
void decode(Curve curve, const std::uint8_t* codes, std::int64_t count, quant::GroupParams stored, float* values) {
  const quant::Scale scale = quant::scale_of(stored, bits);
  if (std::isnan(scale.step)) {
    std::fill_n(values, count, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  const auto step = static_cast<float>(scale.step), origin = static_cast<float>(scale.origin);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) values[i] = curve.expand(static_cast<float>(codes[i]) * step + origin);
}

}  // namespace

void round_to_bf16(const float* values, std::int64_t begin, std::int64_t count, std::uint64_t key, bf16* out) {
  quant::Draws draws(key, quant::Rounding::stochastic);
  for (std::int64_t first = 0; first < count; first += quant::block) {
    const auto& draw = draws.of_block((begin + first) / quant::block);
    const std::int64_t length = std::min(quant::block, count - first);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < length; ++i)
      out[first + i].bits = rounded_to_bf16(values[first + i], draw[static_cast<std::size_t>(i)]);
  }
}

StatePrecision state_precision(std::string_view name) {
  if (name == "f32") return StatePrecision::f32;
  if (name == "bf16") return StatePrecision::bf16;
  if (name == "int8") return StatePrecision::int8;
  reject("optimizer.state: expected f32, bf16 or int8, got {}", name);
}

OptimizerState::OptimizerState(const Shape& shape, Device device, const StateKind& kind, StatePrecision precision)
    : kind_(kind),
      precision_(std::min(kind.coarsest, precision == StatePrecision::int8 && shape.count() < least_coded
                                             ? StatePrecision::f32
                                             : precision)),
      count_(shape.count()) {
  const std::int64_t coded = count_ + (count_ + block - 1) / block * quant::group_params_bytes;
  tensor_ = precision_ == StatePrecision::int8
                ? Tensor::zeros({coded}, DType::u8, device, Purpose::optimizer)
                : Tensor::zeros(shape, precision_ == StatePrecision::f32 ? DType::f32 : DType::bf16, device,
                                Purpose::optimizer);
}

float* OptimizerState::open(std::int64_t begin, std::int64_t end, float* scratch) const {
  if (precision_ == StatePrecision::f32) return tensor_.data<float>() + begin;
  if (precision_ == StatePrecision::bf16) {
    const bf16* const values = tensor_.data<bf16>() + begin;
    for (std::int64_t i = 0; i < end - begin; ++i) scratch[i] = static_cast<float>(values[i]);
    return scratch;
  }
  const std::uint8_t* const bytes = tensor_.data<std::uint8_t>();
  quant::GroupParams stored;
  std::memcpy(&stored, bytes + count_ + begin / block * quant::group_params_bytes, sizeof stored);
  with_curve(kind_.values, [&](auto curve) { decode(curve, bytes + begin, end - begin, stored, scratch); });
  return scratch;
}

void OptimizerState::close(std::int64_t begin, std::int64_t end, const float* values, std::uint64_t key) const {
  if (precision_ == StatePrecision::f32) return;
  if (precision_ == StatePrecision::bf16)
    return round_to_bf16(values, begin, end - begin, key, tensor_.data<bf16>() + begin);
  std::uint8_t* const bytes = tensor_.data<std::uint8_t>();
  quant::GroupParams stored;
  with_curve(kind_.values, [&](auto curve) { encode(curve, values, begin, end - begin, key, bytes + begin, stored); });
  std::memcpy(bytes + count_ + begin / block * quant::group_params_bytes, &stored, sizeof stored);
}

}  // namespace lacuna
