#include "nn/init.h"

#include "core/parallel.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

/// Normal numbers around 0; one outside ±bound deviations is drawn again.
Init bounded_normal(double deviation, double bound) {
  return [=](const Tensor& tensor, const RandomStream& stream) {
    const std::int64_t count = tensor.count();
    with_compute_type(tensor.dtype(), [&]<class T>(Type<T>) {
      T* const out = tensor.data<T>();
      parallel_for((count + 1) / 2, 4096, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t pair = begin; pair < end; ++pair) {
          const auto drawn = normal_pair(stream, static_cast<std::uint64_t>(pair));
          for (std::int64_t i = 2 * pair; i < std::min(2 * pair + 2, count); ++i) {
            double value = i % 2 == 0 ? drawn.first : drawn.second;
            for (RandomStream again = stream; std::abs(value) > bound;) {
              ++again.step;
              value = normal_pair(again, static_cast<std::uint64_t>(i)).first;
            }
            out[i] = static_cast<T>(value * deviation);
          }
        }
      });
    });
  };
}

}  // namespace

Init constant(double value) {
  return [=](const Tensor& tensor, const RandomStream&) { tensor.fill(value); };
}

Init truncated_normal(double deviation) { return bounded_normal(deviation, 2.0 / deviation); }

Init normal(double deviation) { return bounded_normal(deviation, std::numeric_limits<double>::infinity()); }

Init uniform(double bound) {
  return [=](const Tensor& tensor, const RandomStream& stream) {
    with_compute_type(tensor.dtype(), [&]<class T>(Type<T>) {
      T* const out = tensor.data<T>();
      parallel_for(tensor.count(), 4096, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          out[i] = static_cast<T>((2.0 * stream.uniform(static_cast<std::uint64_t>(i)) - 1.0) * bound);
      });
    });
  };
}

Init torch_default(std::int64_t fan_in) { return uniform(1.0 / std::sqrt(static_cast<double>(fan_in))); }

Init kaiming_normal_fan_out(std::int64_t fan_out) { return normal(std::sqrt(2.0 / static_cast<double>(fan_out))); }

}  // namespace lacuna::init
