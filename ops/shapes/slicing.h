// Concatenation, slices and repetition along an axis. The ops copy, and save nothing.
#pragma once

#include "core/op.h"

namespace lacuna {

/// Concatenation of up to 32 inputs along `axis`; all other extents and the type agree.
struct Concat {
  int axis = 0;
  std::vector<std::int64_t> extents;  // of each input along `axis`
  static constexpr std::string_view name = "concat";
  static constexpr std::array<Save, 0> saves{};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Concat>& saved, Grads& grads) const;
};

/// Entries [begin, end) of `axis`. If x has a gradient already, backward adds to those entries only.
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

/// x [1, ...] repeated to [count, ...], as a class token for each sample of a batch. x and its gradient are f32 and y
/// is `dtype`; for an f64 x, all are f64.
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
