// The angles of rotary position embeddings: the ways to scale them that configurations of transformers name.
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace lacuna {

/// The content of `rope_scaling`; `kind` is its `rope_type`. Members that a kind does not name are not read. `dynamic`
/// scales nothing: it is for sequences of more than max_positions, which are refused.
struct RotaryScaling {
  enum class Kind : std::uint8_t { none, linear, llama3, yarn, dynamic, longrope } kind = Kind::none;
  double factor = 0;  // 0: not given, which longrope alone allows: max_positions / original_positions
  /// original_max_position_embeddings of llama3, yarn and longrope; 0: max_positions.
  std::int64_t original_positions = 0;
  double low_frequency = 1, high_frequency = 4;         // llama3: low_freq_factor, high_freq_factor
  double beta_fast = 32, beta_slow = 1;                 // yarn
  bool truncate = true;                                 // yarn: whole dimensions as the ends of the ramp
  double attention_factor = 0;                          // yarn, longrope; 0: by their formulas
  double mscale = 0, mscale_all_dimensions = 0;         // yarn; 0: not given
  std::vector<double> short_factors{}, long_factors{};  // longrope, [n]
};

struct RotaryFrequencies {
  std::vector<double> inverse;  // [n] radians a position
  double attention_factor = 1;  // of cos and sin
  bool operator==(const RotaryFrequencies&) const = default;
};

/// The frequencies theta^(-2 i / dimensions), i < ceil(dimensions / 2), scaled as transformers does it. dimensions: of
/// a head that are rotated. max_positions: max_position_embeddings. longest: rows of the longest sequence that the
/// table is for; `longrope` depends on it. Rejects a scaling whose numbers make no sense.
RotaryFrequencies rotary_frequencies(std::int64_t dimensions, double theta, std::int64_t max_positions,
                                     std::int64_t longest, const RotaryScaling& scaling = {});

/// Cosines and sines of position · frequency, times the attention factor: f32 [positions, n].
struct RotaryTable {
  Tensor cos, sin;
};
using RotaryTablePtr = std::shared_ptr<const RotaryTable>;
RotaryTablePtr make_rotary_table(const RotaryFrequencies& frequencies, std::int64_t positions, Device device);

/// The tables of a model. A table stays once it is made, since captured steps read it at each replay.
class RotaryTables {
 public:
  /// A table of `positions` or more.
  RotaryTablePtr find(const RotaryFrequencies& frequencies, std::int64_t positions, Device device);

 private:
  struct Made {
    RotaryFrequencies frequencies;
    RotaryTablePtr table;
  };
  std::vector<Made> made_;
};

}  // namespace lacuna
