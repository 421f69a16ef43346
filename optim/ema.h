// Exponential moving average of a model's weights.
#pragma once

#include "nn/module.h"

#include <vector>

namespace lacuna {

/// Exponential moving average of trainable parameters and buffers, as
/// timm.utils.ModelEmaV2 (Polyak and Juditsky 1992): average ← d·average +
/// (1 − d)·value, where d = min(decay, (1 + step) / (10 + step)), so that a
/// short run's average does not hold on to its initial weights (as
/// tf.train.ExponentialMovingAverage with num_updates). Integers are copied.
/// Frozen parameters have none and take no memory.
class WeightAverage {
 public:
  /// Starts from the model's present values. The model outlives it.
  WeightAverage(const Module& model, double decay);

  /// To be called after each step of the optimizer; `step` counts from 0.
  void update(std::int64_t step);

  /// While this exists, the model's weights are the averages, and the average
  /// holds the weights.
  class Exchange {
   public:
    /// Does nothing if `average` is null.
    explicit Exchange(WeightAverage* average) : average_(average) { exchange(); }
    ~Exchange() { exchange(); }
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

   private:
    void exchange() const;
    WeightAverage* average_;
  };

 private:
  struct Pair {
    Tensor value, average;  // of one shape and type
  };
  double decay_;
  std::vector<Pair> pairs_;
};

}  // namespace lacuna
