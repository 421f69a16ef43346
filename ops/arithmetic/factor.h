// A factor of a kernel that the host knows, or that lies on the device.
#pragma once

#include "core/tensor.h"

#include <utility>

namespace lacuna {

/// value · on_device. A step that is replayed reads what changes from the device.
struct Factor {
  Factor(double known) : value(known) {}                                     // NOLINT(google-explicit-constructor)
  Factor(Tensor read_there) : value(1), on_device(std::move(read_there)) {}  // NOLINT(google-explicit-constructor)

  double value;
  Tensor on_device{};  // f64 [], or undefined: 1

  /// On the CPU.
  double item() const { return on_device.defined() ? value * *on_device.data<const double>() : value; }
  /// For a kernel: null, or where the device has the number.
  const double* times() const { return on_device.defined() ? on_device.data<const double>() : nullptr; }
};

}  // namespace lacuna
