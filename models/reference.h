// Comparison with a public implementation: one training step and an evaluation against a reference file.
#pragma once

#include "models/safetensors.h"

#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// What a tensor is held to, relative to its magnitude.
inline constexpr double reference_tolerance = 1e-4;

/// One tensor of a reference file against ours.
struct ReferenceTensor {
  std::string name;       // in the file: `grad/head.weight`
  double difference = 0;  // largest |ours - theirs|; infinite where one is NaN or ours does not exist
  double magnitude = 0;   // what it is measured against: largest |theirs|, or its stand-in for a gradient that is zero
  double relative() const { return magnitude > 0 ? difference / magnitude : difference; }
};

struct ReferenceReport {
  std::string model;                     // name or family, as the file has it
  std::vector<ReferenceTensor> tensors;  // in the order of the computation
  const ReferenceTensor& worst() const;
};

/// Builds the model that the file describes, gives it the file's weights, and compares: logits in evaluation; logits,
/// loss and every gradient of a training step; parameters and buffers after the optimizer's step, where one is named.
/// A gradient that is zero in theory (an attention key's bias) is rounding noise on both sides: it is measured against
/// 1/1000 of the file's largest gradient. AdamW divides a gradient by its own magnitude and so makes a whole step of
/// such noise: elements of a gradient that are zero as far as the tolerance can tell take the step of the file's
/// gradient. Refuses files that describe no model of Lacuna's, or another one's weights.
ReferenceReport compare_with_reference(const SafetensorsFile& file, std::string_view memory_policy = "exact");

}  // namespace lacuna
