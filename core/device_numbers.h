// Numbers of a cuda device that the host reads while later work runs.
#pragma once

#include "core/backend.h"
#include "core/tensor.h"

#include <memory>
#include <span>
#include <vector>

namespace lacuna {

/// The values that tensors of a cuda device have behind the work queued so far. Later work may overwrite the tensors.
class DeviceNumbers {
 public:
  /// tensors: f64, of any shapes.
  explicit DeviceNumbers(std::span<const Tensor> tensors);
  /// All values, one tensor behind the other. Waits for the work that was queued before this object was made, and for
  /// no later one.
  std::vector<double> read() const;

 private:
  Tensor values_;  // f64 [elements of all tensors]
  std::unique_ptr<StreamMark> made_;
};

}  // namespace lacuna
