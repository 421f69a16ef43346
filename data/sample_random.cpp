#include "data/sample_random.h"

#include <cmath>
#include <numbers>

namespace lacuna {
namespace {

/// A uniform number above 0, so that its logarithm is finite.
double positive(double uniform) { return uniform + 0x1p-33; }

}  // namespace

double SampleRandom::normal() {
  // Box–Muller transform (1958).
  const double radius = std::sqrt(-2.0 * std::log(positive(uniform())));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

double SampleRandom::gamma(double shape) {
  // Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); section 6 for shapes below 1.
  if (shape < 1) {
    const double scale = std::pow(positive(uniform()), 1.0 / shape);
    return gamma(shape + 1) * scale;
  }
  const double d = shape - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal(), root = 1.0 + c * x, v = root * root * root;
    if (v > 0 && std::log(positive(uniform())) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

double SampleRandom::beta(double a, double b) {
  const double x = gamma(a), y = gamma(b);
  return x + y > 0 ? x / (x + y) : 0.5;
}

RandomStream SampleRandom::order() const {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;  // golden ratio: spreads the seeds of consecutive samples
  return {stream_.seed + odd * (next_ / draws_per_sample + 1), stream_.step, stream_.site ^ random_site("data/order")};
}

std::array<float, 4> SampleRandom::noise(std::uint32_t block) const {
  const RandomStream stream{stream_.seed, stream_.step, stream_.site ^ random_site("data/noise")};
  const auto bits = stream.draw(next_ / draws_per_sample << 28 | block);
  std::array<float, 4> normals{};
  for (std::size_t pair = 0; pair < 4; pair += 2) {
    const float radius = std::sqrt(-2.0F * std::log((static_cast<float>(bits[pair] >> 8) + 0.5F) * 0x1p-24F));
    const float angle = static_cast<float>(bits[pair + 1] >> 8) * (0x1p-24F * 2.0F * std::numbers::pi_v<float>);
    normals[pair] = radius * std::cos(angle);
    normals[pair + 1] = radius * std::sin(angle);
  }
  return normals;
}

}  // namespace lacuna
