// What an optimizer remembers of a parameter between steps, in f32, bf16 or block-wise 8 bit.
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <string_view>

namespace lacuna {

enum class StatePrecision : std::uint8_t { f32, bf16, int8 };  // from fine to coarse
/// Rejects what is no name of a precision; `f32`, `bf16`, `int8`.
StatePrecision state_precision(std::string_view name);

/// The values of a state say how 8 bits share them out.
enum class StateValues : std::uint8_t {
  any_sign,  // codes are even steps of the root of the magnitude: fine near zero, and zero itself is exact
  no_sign,   // even steps of the logarithm: a bounded relative error, and no divisor becomes zero
};

struct StateKind {
  std::string_view name;  // torch.optim's
  StateValues values = StateValues::any_sign;
  StatePrecision coarsest = StatePrecision::int8;  // whatever is asked for
};

/// One state of one parameter. Below f32 what is stored is rounded stochastically: a running mean that moves by less
/// than half a step moves all the same, in the mean over many steps.
class OptimizerState {
 public:
  /// Elements that share a range in 8 bits (2 + 2 bytes a block, as in ops/quantize), and the least number that is
  /// stored so: smaller parameters stay f32, as in bitsandbytes (Dettmers et al. 2022, "8-bit optimizers via block-wise
  /// quantization").
  static constexpr std::int64_t block = 256, least_coded = 4096;

  /// Zeros, of the parameter's shape, with purpose `optimizer`.
  OptimizerState(const Shape& shape, Device device, const StateKind& kind, StatePrecision precision);

  std::string_view name() const { return kind_.name; }
  /// f32 or bf16 in the parameter's shape, or u8 [coded bytes].
  const Tensor& tensor() const { return tensor_; }
  StatePrecision precision() const { return precision_; }

  /// Elements [begin, end), of one block, as floats: where they lie for f32, otherwise read into `scratch` [block].
  float* open(std::int64_t begin, std::int64_t end, float* scratch) const;
  /// Stores what `open` gave. The draws follow from `key` and the elements' numbers.
  void close(std::int64_t begin, std::int64_t end, const float* values, std::uint64_t key) const;

 private:
  StateKind kind_;
  StatePrecision precision_;
  std::int64_t count_;
  Tensor tensor_;
};

}  // namespace lacuna
