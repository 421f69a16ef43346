// The formula of ops/losses/mean_squared_error.cu, for ops/cuda/loss_terms.h.
#pragma once

namespace lacuna::cuda {

struct SquaredErrorTerms;

}  // namespace lacuna::cuda
