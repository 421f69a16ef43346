#include "ops/attention/rotary_table.h"

#include "core/error.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace lacuna {
namespace {

using Kind = RotaryScaling::Kind;

/// Grattafiori et al. 2024, as transformers has it: long waves are stretched, short ones stay, a ramp lies between.
void scale_llama3(const RotaryScaling& s, double original, std::vector<double>& inverse) {
  for (double& f : inverse) {
    const double turns = original * f / (2 * std::numbers::pi);  // within the original context
    const double kept = std::clamp((turns - s.low_frequency) / (s.high_frequency - s.low_frequency), 0.0, 1.0);
    f = (1 - kept) * f / s.factor + kept * f;
  }
}

/// Peng et al. 2023, "YaRN", section 3.2.
void scale_yarn(const RotaryScaling& s, double original, double dimensions, double theta,
                std::vector<double>& inverse) {
  const auto dimension_of = [&](double turns) {
    return dimensions * std::log(original / (2 * std::numbers::pi * turns)) / (2 * std::log(theta));
  };
  double low = dimension_of(s.beta_fast), high = dimension_of(s.beta_slow);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dimensions - 1);
  const double width = high == low ? 0.001 : high - low;
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / width, 0.0, 1.0);
    inverse[i] = inverse[i] / s.factor * ramp + inverse[i] * (1 - ramp);
  }
}

double yarn_attention_factor(const RotaryScaling& s) {
  const auto factor_of = [&](double mscale) { return s.factor <= 1 ? 1 : 0.1 * mscale * std::log(s.factor) + 1; };
  if (s.attention_factor != 0) return s.attention_factor;
  if (s.mscale != 0 && s.mscale_all_dimensions != 0) return factor_of(s.mscale) / factor_of(s.mscale_all_dimensions);
  return factor_of(1);
}

}  // namespace

RotaryFrequencies rotary_frequencies(std::int64_t dimensions, double theta, std::int64_t max_positions,
                                     std::int64_t longest, const RotaryScaling& s) {
  if (dimensions <= 0 || theta <= 0 || max_positions <= 0)
    reject("rotary embedding: expected dimensions, rope_theta and max_position_embeddings above 0, got {}, {} and {}",
           dimensions, theta, max_positions);
  if (s.kind != Kind::none && (s.factor < 0 || (s.factor == 0 && s.kind != Kind::longrope)))
    reject("rope_scaling: expected a factor above 0, got {}", s.factor);
  const auto d = static_cast<double>(dimensions), most = static_cast<double>(max_positions);
  const double original = s.original_positions != 0 ? static_cast<double>(s.original_positions) : most;
  RotaryFrequencies found;
  for (std::int64_t i = 0; 2 * i < dimensions; ++i)
    found.inverse.push_back(std::pow(theta, -2 * static_cast<double>(i) / d));
  switch (s.kind) {
    case Kind::none:
    case Kind::dynamic:
      break;
    case Kind::linear:
      for (double& f : found.inverse) f /= s.factor;
      break;
    case Kind::llama3:
      if (s.high_frequency <= s.low_frequency)
        reject("rope_scaling: expected high_freq_factor above low_freq_factor, got {} and {}", s.high_frequency,
               s.low_frequency);
      scale_llama3(s, original, found.inverse);
      break;
    case Kind::yarn:
      scale_yarn(s, original, d, theta, found.inverse);
      found.attention_factor = yarn_attention_factor(s);
      break;
    case Kind::longrope: {
      const bool is_long = static_cast<double>(longest) > original;
      const std::vector<double>& factors = is_long ? s.long_factors : s.short_factors;
      if (factors.size() != found.inverse.size())
        reject("rope_scaling: expected {} elements of {}, got {}", found.inverse.size(),
               is_long ? "long_factor" : "short_factor", factors.size());
      for (std::size_t i = 0; i < factors.size(); ++i) found.inverse[i] /= factors[i];
      const double stretch = s.factor != 0 ? s.factor : most / original;
      found.attention_factor = s.attention_factor != 0 ? s.attention_factor
                               : stretch <= 1          ? 1
                                                       : std::sqrt(1 + std::log(stretch) / std::log(original));
      break;
    }
  }
  return found;
}

RotaryTablePtr make_rotary_table(const RotaryFrequencies& frequencies, std::int64_t positions, Device device) {
  const auto n = static_cast<std::int64_t>(frequencies.inverse.size());
  RotaryTable table{Tensor::empty({positions, n}, DType::f32, device, Purpose::parameters),
                    Tensor::empty({positions, n}, DType::f32, device, Purpose::parameters)};
  if (device == Device::meta) return std::make_shared<const RotaryTable>(std::move(table));
  std::vector<float> cosines, sines;
  cosines.reserve(static_cast<std::size_t>(positions * n));
  sines.reserve(static_cast<std::size_t>(positions * n));
  for (std::int64_t position = 0; position < positions; ++position)
    for (const double frequency : frequencies.inverse) {
      const float angle = static_cast<float>(position) * static_cast<float>(frequency);  // rounded as transformers does
      cosines.push_back(static_cast<float>(frequencies.attention_factor * std::cos(static_cast<double>(angle))));
      sines.push_back(static_cast<float>(frequencies.attention_factor * std::sin(static_cast<double>(angle))));
    }
  table.cos.copy_from(Tensor::from(std::span<const float>(cosines), {positions, n}));
  table.sin.copy_from(Tensor::from(std::span<const float>(sines), {positions, n}));
  return std::make_shared<const RotaryTable>(std::move(table));
}

RotaryTablePtr RotaryTables::find(const RotaryFrequencies& frequencies, std::int64_t positions, Device device) {
  for (const Made& one : made_)
    if (one.frequencies == frequencies && one.table->cos.shape()[0] >= positions) return one.table;
  // A power of two of rows, so that few tables are made while sequences grow: together less than twice the largest.
  const auto rows = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(positions)));
  made_.push_back({frequencies, make_rotary_table(frequencies, rows, device)});
  return made_.back().table;
}

}  // namespace lacuna
