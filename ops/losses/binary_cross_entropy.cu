#include "ops/losses/binary_cross_entropy_cuda.h"

#include "core/math.h"
#include "ops/cuda/loss_terms_kernels.h"

namespace lacuna::cuda {

/// -w·t·log σ(z) - (1 - t)·log(1 - σ(z)), w the weight of a positive target.
struct BinaryCrossEntropyTerms {
  LACUNA_DEVICE float loss(float prediction, float target, float weight) const {
    const float magnitude = prediction < 0 ? -prediction : prediction;
    return (prediction > 0 ? prediction - prediction * target : -weight * prediction * target) +
           (1 + (weight - 1) * target) * log1pf(math::exp(-magnitude));
  }
  LACUNA_DEVICE float slope(float prediction, float target, float weight) const {
    return (1 + (weight - 1) * target) * math::sigmoid(prediction) - weight * target;
  }
};

template void sum_terms<BinaryCrossEntropyTerms>(Stream, DType, const LossTerms&, double*);
template void spread_terms<BinaryCrossEntropyTerms>(Stream, DType, const LossTerms&, const float*, float, void*);

}  // namespace lacuna::cuda
