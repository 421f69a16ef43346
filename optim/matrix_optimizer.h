// Optimizers that look at a whole parameter: at its shape, and at all of its gradient at once.
#pragma once

#include "optim/rule_optimizer.h"

#include <initializer_list>
#include <span>

namespace lacuna {

/// An update is made of passes by rules (update_by) and of work on whole tensors between them, such as matrix products.
/// States have any shape (StateKind::shape). Nothing waits for the device: what a pass needs to know about the whole
/// tensor lies in a tensor that its rule points to.
class MatrixOptimizer : public Optimizer {
 protected:
  using Optimizer::Optimizer;

  /// Updates one parameter. Update::gradient is f32 and may be overwritten.
  virtual void update_matrix(const Update& what) const = 0;
  void update(std::span<const Update> updates) const override;

  /// A pass over one parameter.
  template <class Rule>
  static void pass(const Rule& rule, const Update& what) {
    update_by(rule, std::span(&what, 1));
  }
  /// Σ x² of each: f64 [tensors].
  static Tensor sums_of_squares(std::initializer_list<Tensor> tensors);
};

}  // namespace lacuna
