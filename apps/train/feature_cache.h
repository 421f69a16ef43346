// The features of a frozen model over both splits, on which a run trains its heads in the place of the samples.
#pragma once

#include "apps/train/setup.h"

#include <cstdint>
#include <functional>

namespace lacuna::apps {

class FeatureCache {
 public:
  /// Memory for all features; they have no values yet.
  FeatureCache(const Setup& setup, DatasetPtr training_samples, DatasetPtr validation_samples);

  /// The features and targets of a split, which share that memory.
  DatasetPtr dataset(Split split) const { return of(split).features; }
  std::int64_t samples() const;
  std::int64_t bytes() const;

  /// Runs the classifier over both splits. `go_on` is asked after each batch, with the number of samples so far; false
  /// ends the work, and is returned then.
  bool compute(const Experiment& experiment, Model& classifier, const std::function<bool(std::int64_t done)>& go_on);

 private:
  struct Part {
    DatasetPtr samples;
    NamedTensors tensors;
    DatasetPtr features;
  };
  static Part part_of(const Setup& setup, DatasetPtr samples);
  const Part& of(Split split) const { return split == Split::train ? training_ : validation_; }

  Part training_, validation_;
};

}  // namespace lacuna::apps
