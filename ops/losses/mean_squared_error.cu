#include "ops/losses/mean_squared_error_cuda.h"

#include "core/math.h"
#include "ops/cuda/loss_terms_kernels.h"

namespace lacuna::cuda {

/// (x - t)².
struct SquaredErrorTerms {
  LACUNA_DEVICE float loss(float prediction, float target, float) const {
    const float error = prediction - target;
    return error * error;
  }
  LACUNA_DEVICE float slope(float prediction, float target, float) const { return 2 * (prediction - target); }
};

template void sum_terms<SquaredErrorTerms>(Stream, DType, const LossTerms&, double*);
template void spread_terms<SquaredErrorTerms>(Stream, DType, const LossTerms&, const float*, float, void*);

}  // namespace lacuna::cuda
