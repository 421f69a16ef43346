// A running mean of the weights, which is evaluated in their place.
#pragma once

#include "nn/module.h"

#include <vector>

namespace lacuna {

/// Exponential moving average of what a model's training changes: trained parameters and running statistics, as
/// timm.utils.ModelEmaV2 (Polyak and Juditsky 1992). average ← decay·average + (1 − decay)·value; whole numbers are
/// copied. What is frozen is its own average and takes no memory.
class WeightAverage {
 public:
  /// Begins with the model's values as they are. The model outlives it.
  WeightAverage(const Module& model, double decay);

  /// After each step of the optimizer.
  void update();

  /// The model has the averages as its weights while this lives, and the average the weights.
  class Exchange {
   public:
    /// `average` may be null: nothing happens.
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
