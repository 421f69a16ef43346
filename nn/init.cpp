#include "nn/init.h"

#include "core/parallel.h"
#include "nn/normal.h"

#include <cmath>
#include <limits>

namespace lacuna::init {
namespace {

/// Normal with mean 0; numbers beyond ±bound deviations are redrawn.
Init bounded_normal(double deviation, double bound) {
  return [=](const Tensor& tensor, const RandomStream& stream) {
    const std::int64_t count = tensor.count();
    with_compute_type(tensor.dtype(), [&]<class T>(Type<T>) {
      T* const out = tensor.data<T>();
      const Normals normals{stream, deviation, bound};
      parallel_for((count + 1) / 2, 4096,
                   [&](std::int64_t begin, std::int64_t end) { normals.fill(begin, end, count, out); }, 256);
    });
  };
}

}  // namespace

Init constant(double value) {
  return [=](const Tensor& tensor, const RandomStream&) { tensor.fill(value); };
}

Init truncated_normal(double deviation, double bound) { return bounded_normal(deviation, bound / deviation); }

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
