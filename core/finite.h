// Values that are no numbers.
#pragma once

#include "core/tensor.h"

namespace lacuna {

struct ValueRange {
  bool finite = true;    // neither NaN nor infinite, all of them
  double magnitude = 0;  // the largest of the finite ones
};
/// The range of a floating tensor; any other tensor, and one on `meta`, is finite. Waits for the device.
ValueRange value_range(const Tensor& tensor);

inline bool is_finite(const Tensor& tensor) { return value_range(tensor).finite; }

}  // namespace lacuna
