#include "nn/sequential.h"

#include "nn/region.h"

namespace lacuna::nn {

Variable Sequential::forward(Variable x) const {
  return run_region(*this, std::move(x), [this](Variable in) {
    for (const Function& entry : entries_) in = entry(std::move(in));
    return in;
  });
}

}  // namespace lacuna::nn
