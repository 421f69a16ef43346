// The policy `adaptive`: each tensor gets the bits that it needs (GACT, Liu et al. 2022).
#pragma once

#include "autograd/calibration.h"
#include "autograd/policies/quantizing.h"

#include <functional>
#include <map>
#include <string>

namespace lacuna {

/// `bits` an element on average: the bytes that `fixed` takes with as many bits, ranges and means included, are divided
/// among the tensors so that the predicted variance of the gradient is least (GACT, equation 7, solved by
/// `allocate_bits`). It is predicted from sensitivities, which the owner of the training step measures before the first
/// pass of a step when `calibration_due`. Before the first calibration every tensor gets as many whole bits as the
/// average allows with the ranges within it.
class Adaptive final : public QuantizingPolicy {
 public:
  static constexpr std::string_view policy_name = "adaptive";
  static std::vector<Setting> settings();
  explicit Adaptive(const Settings& settings);
  std::string_view name() const override { return policy_name; }

  bool calibration_due() const { return !calibrated_ && (passes_ == 0 || passes_ >= calibrate_every_); }
  /// Passes, at least, from one calibration to the next.
  std::int64_t calibrate_every() const { return calibrate_every_; }
  /// By calibrate_by_draws, otherwise by calibrate_in_backward.
  bool by_draws() const { return by_draws_; }
  /// `measure` runs passes under this policy, which holds tensors in `bits` meanwhile; 0: in their own bits, two at
  /// least, since coarser ones are what is measured. The bits of the next pass follow from its result.
  void calibrate(int bits, const std::function<Calibration()>& measure);
  /// Variance that quantization adds to the gradient, as predicted, over the square of the gradient: both of the
  /// samples of the last calibration, in its measure. 0 before one, and after set_state. Near 1 the gradient is mostly
  /// noise (GACT, section 4.2); of the gradient's whole variance the part is larger still.
  double variance_share() const;

  std::map<std::string, Tensor> state() const override;
  void set_state(const std::map<std::string, Tensor>& state) override;
  /// `sensitivity` of what was measured, and `bits`.
  TensorFigures figures() const override;

 private:
  struct Planned {
    BitChoice choice{};
    double sensitivity = 0;  // as BitChoice has it
    bool measured = false;
    int bits = 0;
  };
  using Plan = std::map<std::string, Planned>;  // by key

  quant::QuantConfig config_of(const SavedTensorInfo& info) override;
  void begin_pass(std::uint64_t pass);
  Plan after_pass() const;
  void learn(const Sensitivities& sensitivities);
  Plan divided() const;

  double bits_;
  std::int64_t group_size_, calibrate_every_;
  bool by_draws_;
  double smoothing_;

  Plan tensors_{};
  double gradient_ = 0;                       // Calibration::gradient of the last one
  std::int64_t passes_ = 0;                   // since the last calibration, the one behind it included
  std::uint64_t pass_ = 0;                    // the pass that was seen last
  std::map<std::string, Label> quantized_{};  // the tensors of that pass by key, with their region (SavedTensorInfo)
  bool plan_is_stale_ = false;           // bits are divided anew after the pass, whose tensors are of the true size
  bool calibrated_ = false;              // no pass has begun since
  std::optional<int> calibration_bits_;  // while it runs
};

/// The adaptive policy that `policy` is, or is made of by rules; null: another one.
const Adaptive* adaptive_of(const MemoryPolicy& policy);
Adaptive* adaptive_of(MemoryPolicy& policy);

}  // namespace lacuna
