// Exponential moving average of a model's weights.
#pragma once

#include "core/communicator.h"
#include "nn/module.h"

#include <array>
#include <cstdint>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna {

/// How the decay of an average grows, so that a short run's average does not hold on to its initial weights; `s` is the
/// number of steps before.
enum class AverageWarmup : std::uint8_t {
  none,        // the decay as it is (timm.utils.ModelEmaV2)
  tensorflow,  // (1 + s) / (10 + s) at most: tf.train.ExponentialMovingAverage with num_updates
  timm         // 1 − (1 + s)^(−2/3) at most: timm.utils.ModelEmaV3 with use_warmup
};

constexpr std::array<std::pair<std::string_view, AverageWarmup>, 3> names_of(AverageWarmup) {
  return {{{"none", AverageWarmup::none}, {"tensorflow", AverageWarmup::tensorflow}, {"timm", AverageWarmup::timm}}};
}

/// The decay after a step, of which there were `step` before.
double decay_at(std::int64_t step, double decay, AverageWarmup warmup);

/// Exponential moving average of trainable parameters and buffers (Polyak and Juditsky 1992): average ← d·average +
/// (1 − d)·value. Integers are copied. Frozen parameters have none and take no memory.
class Optimizer;

class WeightAverage {
 public:
  /// Starts from the model's present values. The model outlives it.
  WeightAverage(const Module& model, double decay, AverageWarmup warmup = AverageWarmup::tensorflow);

  /// The same in parts: each rank holds the averages of the parameters that it updates, and of all buffers. `owners`
  /// and `ranks` outlive it. All ranks make each Exchange together.
  WeightAverage(const Module& model, const Optimizer& owners, Communicator& ranks, double decay, AverageWarmup warmup);

  bool is_sharded() const { return owners_ != nullptr; }
  /// Starts again from the model's present values.
  void restart();

  /// To be called after each step of the optimizer; `step` counts from 0.
  void update(std::int64_t step);

  /// While this exists, the model's weights are the averages, and the average
  /// holds the weights.
  class Exchange {
   public:
    /// Does nothing if `average` is null.
    explicit Exchange(WeightAverage* average) : average_(average) { exchange(true); }
    /// Throws if the ranks cannot be reached. After an error on this rank the others are not waited for.
    ~Exchange() noexcept(false) { exchange(std::uncaught_exceptions() == errors_before_); }
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

   private:
    void exchange(bool with_ranks) const;
    WeightAverage* average_;
    int errors_before_ = std::uncaught_exceptions();
  };

 private:
  void add_pairs(const Module& model);

  struct Pair {
    Tensor value, average;  // of one shape and type
  };
  double decay_;
  AverageWarmup warmup_;
  std::vector<Pair> pairs_;  // in parts: this rank's
  std::vector<Parameter*> parameters_;
  const Optimizer* owners_ = nullptr;  // null: it is whole
  Communicator* ranks_ = nullptr;
};

}  // namespace lacuna
