// Optimizer state of a parameter, stored as f32, bf16 or block-wise 8 bits.
#pragma once

#include "core/tensor.h"
#include "optim/state_values.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace lacuna {

/// `f32`, `bf16` or `int8`; rejects other names.
StatePrecision state_precision(std::string_view name);

struct StateKind {
  std::string_view name;  // torch.optim's
  StateValues values = StateValues::any_sign;
  StatePrecision coarsest = StatePrecision::int8;  // limit on the precision asked for
  std::optional<Shape> shape{};                    // nothing: the parameter's
};

/// One state of one parameter. bf16 and 8-bit values are rounded
/// stochastically, so that a running mean moves by less than half a step on
/// average over many steps.
class OptimizerState {
 public:
  /// Elements that share a range in 8 bits (2 + 2 bytes a block, as in
  /// ops/quantize), and the smallest parameter that is stored so: smaller ones
  /// stay f32, as in bitsandbytes (Dettmers et al. 2022, "8-bit optimizers via
  /// block-wise quantization").
  static constexpr std::int64_t block = state_block, least_coded = 4096;

  /// Zeros, with purpose `optimizer`.
  OptimizerState(const Shape& shape, Device device, const StateKind& kind, StatePrecision precision);

  std::string_view name() const { return kind_.name; }
  /// f32 or bf16 in the state's shape, or u8 [coded bytes].
  const Tensor& tensor() const { return tensor_; }
  StatePrecision precision() const { return precision_; }
  StateValues values() const { return kind_.values; }

  /// Elements [begin, end) of one block as floats: in place if stored as f32,
  /// otherwise decoded into `scratch` [block].
  float* open(std::int64_t begin, std::int64_t end, float* scratch) const;
  /// Stores values from `open`. The draws depend on `key` and the elements'
  /// numbers.
  void close(std::int64_t begin, std::int64_t end, const float* values, std::uint64_t key) const;

 private:
  StateKind kind_;
  StatePrecision precision_;
  std::int64_t count_;
  Tensor tensor_;
};

/// Rounds values from element `begin` on, a multiple of 128, to bf16: up or down by draws, which depend on `key` and
/// the elements' numbers.
void round_to_bf16(const float* values, std::int64_t begin, std::int64_t count, std::uint64_t key, bf16* out);

}  // namespace lacuna
