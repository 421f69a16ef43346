// Parts of tensors along an axis: joined, taken out, repeated. They copy, and keep nothing.
#pragma once

#include "core/op.h"

namespace lacuna {

/// Inputs one behind the other along `axis`; all other extents and the type agree. Up to 32 inputs.
struct Concat {
  int axis = 0;
  std::vector<std::int64_t> extents;  // of each input along `axis`
  static constexpr std::string_view name = "concat";
  static constexpr std::array<Save, 0> saves{};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Concat>& saved, Grads& grads) const;
};

/// Entries [begin, end) of `axis`. Where x has a gradient already, backward adds to those entries alone.
struct Slice {
  enum Input { x };
  int axis = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t extent = 0;  // of x along `axis`
  static constexpr std::string_view name = "slice";
  static constexpr std::array<Save, 0> saves{};
  static constexpr InputSet accumulates_into{x};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Slice>& saved, Grads& grads) const;
};

/// x [1, ...] repeated to [count, ...]: a class token, a parameter, becomes one of a batch's tokens. x and its gradient
/// are in f32 and y in `dtype`; for an f64 x all are in f64.
struct Expand {
  enum Input { x };
  std::int64_t count = 1;
  DType dtype = DType::f32;
  static constexpr std::string_view name = "expand";
  static constexpr std::array<Save, 0> saves{};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Expand>& saved, Grads& grads) const;
};

}  // namespace lacuna
