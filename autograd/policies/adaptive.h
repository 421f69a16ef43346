// The policy `adaptive`: chooses bits per tensor by sensitivity (GACT, Liu et al. 2022).
#pragma once

#include "autograd/calibration.h"
#include "autograd/policies/quantizing.h"

#include <functional>
#include <map>
#include <string>

namespace lacuna {

struct AdaptiveOptions {
  double bits = 4;
  std::int64_t group_size = default_group_size;
  std::int64_t measure_every = 200;
  bool by_draws = false;
  double smoothing = 0.5;

  static Fields fields();
};

/// Quantizes to `bits` bits per element on average. The bytes that `fixed` takes with these bits, ranges and means
/// included, are divided among the tensors so that the predicted gradient variance is minimal (GACT, equation 7, solved
/// by `allocate_bits`). The prediction uses sensitivities, which the owner of the training step measures before the
/// first pass of a step if `calibration_due`. Before the first calibration, every tensor gets the most whole bits that
/// fit the average with ranges included.
class Adaptive final : public QuantizingPolicy {
 public:
  static constexpr std::string_view policy_name = "adaptive";
  explicit Adaptive(const AdaptiveOptions& options);
  std::string_view name() const override { return policy_name; }

  bool calibration_due() const { return !calibrated_ && (passes_ == 0 || passes_ >= calibrate_every_); }
  /// The minimum number of passes from one calibration to the next.
  std::int64_t calibrate_every() const { return calibrate_every_; }
  /// Whether to calibrate by calibrate_by_draws; otherwise by calibrate_in_backward.
  bool by_draws() const { return by_draws_; }
  /// Runs a calibration and chooses the bits of the next pass by its result. During `measure`, which runs passes under
  /// this policy, tensors are held in `bits` bits; 0: in their own bits but at least two, since the effect of coarser
  /// ones is measured.
  void calibrate(int bits, const std::function<Calibration()>& measure);
  /// The predicted gradient variance due to quantization over the squared gradient, both on the samples and in the
  /// measure of the last calibration. 0 before the first calibration and after set_state. Near 1 the gradient is mostly
  /// noise (GACT, section 4.2); the share in the gradient's total variance is larger still.
  double variance_share() const;

  std::map<std::string, Tensor> state() const override;
  void set_state(const std::map<std::string, Tensor>& state) override;
  /// `bits` for each tensor, and `sensitivity` for the measured ones.
  TensorFigures figures() const override;

 private:
  struct Planned {
    BitChoice choice{};
    double sensitivity = 0;  // see BitChoice
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
  double gradient_ = 0;                       // Calibration::gradient of the last calibration
  std::int64_t passes_ = 0;                   // passes since the last calibration, including the pass right after it
  std::uint64_t pass_ = 0;                    // the last pass
  std::map<std::string, Label> quantized_{};  // that pass's tensors by key, with their region (SavedTensorInfo)
  bool plan_is_stale_ = false;                // reallocate bits after the pass, which shows the true sizes of tensors
  bool calibrated_ = false;                   // no pass has begun since the calibration
  std::optional<int> calibration_bits_;       // set during a calibration
};

/// `policy` as an adaptive policy, also if rules wrap it; null for other policies.
const Adaptive* adaptive_of(const MemoryPolicy& policy);
Adaptive* adaptive_of(MemoryPolicy& policy);

}  // namespace lacuna
