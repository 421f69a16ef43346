// Signs as bits: a 1-bit mask of what a sign-only backward needs.
#pragma once

#include "core/tensor.h"

namespace lacuna::codec {

/// One bit an element, set where it is positive (NaN and zero are not): bit i % 8 of byte i / 8, the rest of the last
/// byte 0. `values` of any floating type and shape; the result is u8 [ceil(count / 8)] on the same device, purpose
/// saved.
Tensor pack_signs(const Tensor& values);

}  // namespace lacuna::codec
