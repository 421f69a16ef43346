#include "nn/linear_cross_entropy.h"

#include "autograd/apply.h"

namespace lacuna::nn {

Variable linear_cross_entropy(Variable x, Variable weight, Variable bias, Variable labels,
                              const LinearCrossEntropy& loss) {
  if (x.requires_grad() && !weight.requires_grad() && !bias.requires_grad() && loss.label_smoothing == 0)
    return apply(FrozenLinearCrossEntropy{loss}, std::move(x), std::move(weight), std::move(bias), std::move(labels));
  return apply(loss, std::move(x), std::move(weight), std::move(bias), std::move(labels));
}

}  // namespace lacuna::nn
