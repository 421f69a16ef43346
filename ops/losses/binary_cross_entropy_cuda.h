// The formula of ops/losses/binary_cross_entropy.cu, for ops/cuda/loss_terms.h.
#pragma once

namespace lacuna::cuda {

struct BinaryCrossEntropyTerms;

}  // namespace lacuna::cuda
