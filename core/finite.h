// A check of tensors for NaN and infinity.
#pragma once

#include "core/tensor.h"

namespace lacuna {

struct ValueRange {
  bool finite = true;    // no value is NaN or infinite
  double magnitude = 0;  // the largest magnitude of the finite values
};
/// The range of a floating-point tensor; tensors of other types and on `meta` count as finite. Waits for the device.
ValueRange value_range(const Tensor& tensor);

inline bool is_finite(const Tensor& tensor) { return value_range(tensor).finite; }

}  // namespace lacuna
