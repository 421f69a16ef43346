// Rotary position embedding of queries and keys.
#pragma once

#include "core/kernel.h"
#include "core/op.h"
#include "ops/attention/rotary_table.h"
#include "ops/shapes/sequences.h"

#include <vector>

namespace lacuna {

/// Rotates the first 2 n values of each head by the angles of the row's position (Su et al. 2021, eq. 34):
///
///   (a, b) -> (a · cos - b · sin, b · cos + a · sin)
///
/// for the pairs (i, n + i), or (2 i, 2 i + 1) with `neighbours`; the rest of a head stays. x, y: [1, T, heads ·
/// head_dim]. The first row of each sequence has position 0, or sequence i has `first_positions[i]` where a cache holds
/// the rows before. Rows of padding have any position. Backward rotates by the negative angle and needs no tensor.
struct Rotary {
  enum Input { x };
  std::int64_t heads = 1;
  RotaryTablePtr table = nullptr;  // [positions, n]
  SequencesPtr sequences = nullptr;
  bool neighbours = false;
  std::vector<std::int64_t> first_positions = {};
  static constexpr std::string_view name = "rotary";
  static constexpr std::array<Save, 0> saves{};
  static constexpr std::array rematerializes{rows_of(input(x))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<Rotary>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<Rotary>& from, const Tensor& out) const;
};

/// Throws Error if the op does not fit x.
void check_rotary(const Rotary& op, const Shape& x);

struct Rotation {
  const RotaryTable& table;
  std::vector<std::int64_t> positions;  // of the rows
  std::int64_t heads;
  bool neighbours, inverse;
};
/// Rotates rows [begin, end), by the negative angles if `inverse`.
Rotation rotation_of(const Rotary& op, std::int64_t begin, std::int64_t end, bool inverse);
/// x, y: [rows, heads · head_dim]; y may be x.
inline constinit Kernel<void(const Rotation& how, const Tensor& x, const Tensor& y)> rotate_rows{"rotary"};

}  // namespace lacuna
