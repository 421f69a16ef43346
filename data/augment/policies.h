// A parsed string of timm's `--aa`: the operations, their probabilities and magnitudes.
#pragma once

#include "data/augment/operations.h"

#include <string_view>
#include <vector>

namespace lacuna::augment {

/// An operation with its probability and strength.
struct Step {
  const Operation* operation = nullptr;
  double probability = 0.5;
  double magnitude = 10;
  double deviation = 0;  // of the magnitude, which is normal around `magnitude`; infinite: uniform from 0 to it
  double highest = 10;   // magnitudes are held between 0 and this

  /// Changes the sample's images, or not.
  void apply(Sample& sample, const Surroundings& surroundings, SampleRandom& random) const;
};

struct Policy {
  enum class Kind : std::uint8_t {
    random,  // `layers` of the steps, one after another (RandAugment: Cubuk et al. 2019)
    choice,  // one of the chains (AutoAugment: Cubuk et al. 2018; 3-Augment: Touvron et al. 2022)
    mix      // `layers` random chains of the steps, blended with the image (AugMix: Hendrycks et al. 2019)
  };
  Kind kind = Kind::random;
  std::vector<Step> steps{};      // random, mix
  std::vector<double> weights{};  // random: of the steps, none of which is taken twice; empty: alike, repeated
  std::vector<std::vector<Step>> chains{};  // choice
  std::int64_t layers = 2;                  // random, mix
  std::int64_t depth = 0;                   // mix: steps of a chain; 0: 1 to 3, drawn
  double alpha = 1;                         // mix: of the beta and Dirichlet distributions of its weights
  bool blends_each = false;                 // mix: blends chain by chain, rounding between
  bool keeps_color_jitter = false;          // 3-Augment: colour jitter follows it
};

/// Reads `rand-m9-mstd0.5-inc1`, `original-mstd0.5`, `3a`, `augmix-m5-w4-d2` and the like. What timm would ignore or
/// fail on is the input's fault, whose message names `data.auto_augment`.
Policy parse_policy(std::string_view text);

}  // namespace lacuna::augment
