#include "nn/init.h"

#include <cmath>
#include <numbers>

namespace lacuna::init {
namespace {

/// Two independent standard normal numbers out of four draws (Box and Muller 1958).
std::pair<double, double> normal_pair(const RandomStream& stream, std::uint64_t pair) {
  const auto bits = stream.draw(pair);
  const double u = (static_cast<double>(bits[0]) + 1.0) * 0x1p-32;  // (0, 1]
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(bits[1]) * 0x1p-32;
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// Standard normal numbers within ±bound, by drawing again where one falls outside.
Init bounded_normal(double deviation, double bound) {
  return [=](const Tensor& tensor, const RandomStream& stream) {
    auto* const out = tensor.data<float>();
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      std::uint64_t attempt = 0;
      double value;
      do {
        RandomStream retry = stream;
        retry.step = static_cast<std::uint32_t>(attempt++);
        value = normal_pair(retry, static_cast<std::uint64_t>(i)).first;
      } while (std::abs(value) > bound);
      out[i] = static_cast<float>(value * deviation);
    }
  };
}

}  // namespace

Init constant(double value) {
  return [=](const Tensor& tensor, const RandomStream&) { tensor.fill(value); };
}

Init truncated_normal(double deviation) { return bounded_normal(deviation, 2.0 / deviation); }

Init normal(double deviation) {
  return [=](const Tensor& tensor, const RandomStream& stream) {
    auto* const out = tensor.data<float>();
    for (std::int64_t i = 0; i < tensor.count(); i += 2) {
      const auto [first, second] = normal_pair(stream, static_cast<std::uint64_t>(i / 2));
      out[i] = static_cast<float>(first * deviation);
      if (i + 1 < tensor.count()) out[i + 1] = static_cast<float>(second * deviation);
    }
  };
}

Init uniform(double bound) {
  return [=](const Tensor& tensor, const RandomStream& stream) {
    auto* const out = tensor.data<float>();
    for (std::int64_t i = 0; i < tensor.count(); ++i)
      out[i] = static_cast<float>((2.0 * stream.uniform(static_cast<std::uint64_t>(i)) - 1.0) * bound);
  };
}

Init torch_default(std::int64_t fan_in) { return uniform(1.0 / std::sqrt(static_cast<double>(fan_in))); }

Init kaiming_normal_fan_out(std::int64_t fan_out) { return normal(std::sqrt(2.0 / static_cast<double>(fan_out))); }

Init lecun_normal(std::int64_t fan_in) {
  // 0.8796 is the deviation of a standard normal number cut off at ±2.
  return bounded_normal(std::sqrt(1.0 / static_cast<double>(fan_in)) / .87962566103423978, 2.0);
}

}  // namespace lacuna::init
