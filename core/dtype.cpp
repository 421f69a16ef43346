#include "core/dtype.h"

namespace lacuna::detail {

void throw_not_on_cuda(DType dtype) {
  fail("cuda computes on f32, bf16 and f16, got {}: convert the tensor, or use the CPU", name_of(dtype));
}

}  // namespace lacuna::detail
