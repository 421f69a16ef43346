#include "optim/state.h"

#include "ops/quantize/affine_kernels.h"
#include "ops/quantize/group_params.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace lacuna {
namespace {

constexpr std::int64_t block = OptimizerState::block;
constexpr int bits = 8;
static_assert(block % quant::block == 0);

/// Signed square root, whose inverse is x · |x|.
struct SignedRoot {
  static float compress(float value) { return std::copysign(std::sqrt(std::abs(value)), value); }
  static float expand(float root) { return root * std::abs(root); }
  static quant::Range held(quant::Range range) { return range; }
};

/// Logarithm to base 2, linear between powers of two: the bit pattern of a
/// positive float, read as an integer.
struct Logarithm {
  static constexpr float octave = 0x1p23F;
  static float compress(float value) {
    const auto pattern = std::bit_cast<std::int32_t>(value);
    return pattern < 0x7f800000 ? static_cast<float>(pattern) / octave : std::numeric_limits<float>::quiet_NaN();
  }
  static float expand(float logarithm) {
    constexpr float most = 254.99F;  // below infinity
    const float held = std::min(std::max(logarithm, 0.0F), most);
    return std::bit_cast<float>(static_cast<std::int32_t>(held * octave));
  }
  /// Values more than 32 octaves below a block's largest are clamped, so that a
  /// step is at most an eighth of an octave.
  static quant::Range held(quant::Range range) { return {std::max(range.min, range.max - 32), range.max}; }
};

template <class F>
void with_curve(StateValues values, const F& f) {
  if (values == StateValues::no_sign)
    f(Logarithm{});
  else
    f(SignedRoot{});
}

/// Quantizes values [count] of one block, from element `begin` on. The
/// probability of rounding up is the remainder in values, not on the curve, so
/// that the mean is the value itself.
template <class Curve>
void encode(Curve curve, const float* values, std::int64_t begin, std::int64_t count, std::uint64_t key,
            std::uint8_t* codes, quant::GroupParams& stored) {
  std::array<float, block> compressed;
  for (std::int64_t i = 0; i < count; ++i) compressed[static_cast<std::size_t>(i)] = curve.compress(values[i]);
  const quant::Observed found = quant::observe(compressed.data(), count);
  quant::Range range = curve.held(found.range);
  if (range.min == range.max) {  // a constant has to lie between two codes, or
                                 // it could never decrease
    const float margin = std::abs(range.min) * 0x1p-10F;
    range = {range.min - margin, range.max + margin};
  }
  stored = found.finite ? quant::ParamFitter(bits).fit(range) : quant::not_finite();
  const quant::Scale scale = quant::scale_of(stored, bits);
  if (!(scale.step > 0)) {
    std::fill_n(codes, count, std::uint8_t{0});
    return;
  }
  const auto step = static_cast<float>(scale.step), origin = static_cast<float>(scale.origin), per = 1 / step;
  quant::Draws draws(key, quant::Rounding::stochastic);
  for (std::int64_t first = 0; first < count; first += quant::block) {
    const auto& draw = draws.of_block((begin + first) / quant::block);
    const std::int64_t length = std::min(quant::block, count - first);
    const float *const x = values + first, *const y = compressed.data() + first;
    std::uint8_t* const out = codes + first;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < length; ++i) {
      const float code = std::floor(std::min(std::max((y[i] - origin) * per, 0.0F), 254.0F));
      const float low = curve.expand(code * step + origin), high = curve.expand((code + 1) * step + origin);
      const float share = (x[i] - low) * 65536.0F, drawn = static_cast<float>(draw[static_cast<std::size_t>(i)]) + 0.5F;
      out[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(code) + (share > drawn * (high - low) ? 1 : 0));
    }
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

/// f32 to bf16, rounded stochastically: the upper half of the value plus a
/// 16-bit draw. NaN and infinities stay.
void round_to_bf16(const float* values, std::int64_t begin, std::int64_t count, std::uint64_t key, bf16* out) {
  quant::Draws draws(key, quant::Rounding::stochastic);
  for (std::int64_t first = 0; first < count; first += quant::block) {
    const auto& draw = draws.of_block((begin + first) / quant::block);
    const std::int64_t length = std::min(quant::block, count - first);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < length; ++i) {
      const auto u = std::bit_cast<std::uint32_t>(values[first + i]);
      const bool finite = (u & 0x7f800000U) != 0x7f800000U;
      const std::uint32_t drawn = finite ? draw[static_cast<std::size_t>(i)] : 0U;
      out[first + i].bits = static_cast<std::uint16_t>((u + drawn) >> 16);
    }
  }
}

}  // namespace

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
