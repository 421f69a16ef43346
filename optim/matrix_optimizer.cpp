#include "optim/matrix_optimizer.h"

#include <vector>

namespace lacuna {

void MatrixOptimizer::update(std::span<const Update> updates) const {
  for (const Update& what : updates) {
    const Tensor& stored = what.gradient;
    if (stored.dtype() == DType::f32 && stored.unique()) {
      update_matrix(what);
      continue;
    }
    const Tensor own = Tensor::empty(stored.shape(), DType::f32, stored.device(), Purpose::workspace);
    own.copy_from(stored);
    update_matrix(what.with_gradient(own));
  }
}

Tensor MatrixOptimizer::sums_of_squares(std::initializer_list<Tensor> tensors) {
  const Device device = tensors.begin()->device();
  const auto count = static_cast<std::int64_t>(tensors.size());
  const Tensor squares = Tensor::empty({count}, DType::f64, device, Purpose::workspace);
  const Tensor finite =
      Tensor::empty({}, DType::i32, device, Purpose::workspace);  // not read: passes look at the clip's
  std::vector<MeasuredGradient> measured;
  for (const Tensor& tensor : tensors) measured.push_back({tensor, std::ssize(measured)});
  measure_gradients(device, measured, squares, finite);
  return squares;
}

}  // namespace lacuna
