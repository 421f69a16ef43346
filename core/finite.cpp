#include "core/finite.h"

#include <algorithm>
#include <cmath>

namespace lacuna {

ValueRange value_range(const Tensor& tensor) {
  if (tensor.is_coded()) return value_range(tensor.to(DType::f32));
  ValueRange range;
  if (!is_floating(tensor.dtype()) || tensor.device() == Device::meta) return range;
  if (tensor.device() != Device::cpu) return value_range(tensor.to(Device::cpu));
  with_float_type(tensor.dtype(), [&]<class T>(Type<T>) {
    const T* const values = tensor.data<const T>();
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      const double magnitude = std::abs(static_cast<double>(to_compute(values[i])));
      if (std::isfinite(magnitude))
        range.magnitude = std::max(range.magnitude, magnitude);
      else
        range.finite = false;
    }
  });
  return range;
}

}  // namespace lacuna
