// Comparison with a public implementation: one training step and an evaluation against a reference file.
#pragma once

#include "models/io/safetensors.h"

#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The tolerance of a tensor, relative to its magnitude: of results in f32, and of those computed in f64.
inline constexpr double reference_tolerance = 1e-4, reference_tolerance_f64 = 1e-9;

/// How often a step may be repeated; see below.
inline constexpr int reference_repetitions = 16;

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
  int repetition = 0;                    // 0: from the file's very inputs
  std::int64_t stepped_alike = 0;        // elements that are zero within the tolerance and took the file's gradient
  const ReferenceTensor& worst() const;
  /// Whether evaluation and the forward pass agree.
  bool forward_agrees() const;
};

/// Builds the model that the file describes, gives it the file's weights, and compares: outputs in evaluation; outputs,
/// loss and every gradient of a training step; parameters and buffers after the optimizer's step, where one is named.
/// A gradient that is zero in theory (an attention key's bias) is rounding noise on both sides: it is measured against
/// 1/1000 of the file's largest gradient. AdamW divides a gradient by its own magnitude and so makes a whole step of
/// such noise: elements of a gradient that are zero as far as the tolerance can tell take the step of the file's
/// gradient.
///
/// A ReLU whose input lies within rounding of zero has two gradients, and each side's rounding picks one. Where the
/// forward pass agrees and a gradient does not, the step is therefore repeated from floating-point inputs moved by a
/// millionth of themselves, and the repetition that agrees best is reported: an error in a gradient stays in every one
/// of them.
///
/// `precision`: of the activations, f32, or f64 for a file whose results were computed in f64 from the same f32 weights
/// and images. No input of a ReLU lies within the rounding of f64 of zero: nothing is repeated.
///
/// Refuses files that describe no model of Lacuna's, or another one's weights.
ReferenceReport compare_with_reference(const SafetensorsFile& file, std::string_view memory_policy = "exact",
                                       DType precision = DType::f32);

}  // namespace lacuna
