// A parsed string of timm's `--aa`: the operations, their probabilities and magnitudes.
#pragma once

#include "data/augment/operations.h"

#include <string_view>
#include <vector>

namespace lacuna::augment {

/// An operation with its probability and magnitude.
struct Step {
  const Operation* operation = nullptr;
  double probability = 0.5;
  double magnitude = 10;
  double deviation = 0;  // standard deviation of the magnitude; infinite: uniform between 0 and `magnitude`
  double highest = 10;   // magnitudes are clamped to [0, highest]

  /// Applies the operation with its probability, and returns how pixels moved.
  Geometry apply(SampleImage& image, const Surroundings& surroundings, SampleRandom& random) const;
};

struct Policy {
  enum class Kind : std::uint8_t {
    random,  // `layers` steps in sequence (RandAugment: Cubuk et al. 2019)
    choice,  // one of the chains (AutoAugment: Cubuk et al. 2018; 3-Augment: Touvron et al. 2022)
    mix      // `layers` random chains of the steps, blended with the image (AugMix: Hendrycks et al. 2019)
  };
  Kind kind = Kind::random;
  std::vector<Step> steps{};  // random, mix
  std::vector<double>
      weights{};  // random: weights for sampling steps without replacement; empty: uniform, with replacement
  std::vector<std::vector<Step>> chains{};  // choice
  std::int64_t layers = 2;                  // random, mix
  std::int64_t depth = 0;                   // mix: steps per chain; 0: drawn from 1 to 3
  double alpha = 1;                         // mix: parameter of the beta and Dirichlet distributions of the weights
  bool blends_each = false;                 // mix: blends one chain at a time, rounding in between
  bool keeps_color_jitter = false;          // 3-Augment: colour jitter stays on and follows it
};

/// Parses `rand-m9-mstd0.5-inc1`, `original-mstd0.5`, `3a`, `augmix-m5-w4-d2` and the like. Anything that timm would
/// ignore or fail on is the input's fault; the message names `data.auto_augment`.
Policy parse_policy(std::string_view text);

}  // namespace lacuna::augment
