// Samples of ops: what the op matrix runs. Each family registers its own in tests/ops/<family>_samples.cpp.
#pragma once

#include "core/op.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {

struct OpSample {
  std::string name;  // the op's name, and what is particular about this sample
  std::shared_ptr<const Operation> op;
  /// Fresh inputs with floating type `dtype`: the same values every time, drawn in double and converted. Integer
  /// inputs stay integers; an optional input may be undefined.
  std::function<std::vector<Tensor>(DType dtype)> inputs;
  InputSet differentiable;
  /// That `inputs` can be asked for; f16 is for cuda alone.
  std::vector<DType> types{DType::f64, DType::f32, DType::bf16, DType::f16};
  /// An input that may be a frozen weight in few bits: the sample stands for one more of each format. -1: none.
  int weight = -1;
};

/// All samples of this test program.
std::vector<OpSample>& op_samples();

/// A static object of this type registers a sample.
struct RegisterSample {
  explicit RegisterSample(OpSample sample);
};

/// An op as the matrix wants it.
template <class Op>
std::shared_ptr<const Operation> bound(Op op) {
  return std::make_shared<const Bound<Op>>(std::move(op));
}

/// Values in [low, high) that depend on `site` alone, so that two inputs of a sample differ.
Tensor sample_values(const Shape& shape, DType dtype, std::uint32_t site, double low = -2, double high = 2);

/// Values whose magnitude lies in [0.1, 2): for ops with a kink at zero, which finite differences must not straddle.
Tensor sample_values_off_zero(const Shape& shape, DType dtype, std::uint32_t site);

}  // namespace lacuna
