// Normalisation layers.
#pragma once

#include "core/communicator.h"
#include "nn/module.h"
#include "ops/attention/rotary.h"
#include "ops/norms/rms_norm.h"

#include <optional>

namespace lacuna::nn {

/// Layer norm over the last axis of tokens [..., C], with weight [C] and, unless there is none, bias [C].
class LayerNorm : public Module {
 public:
  /// `weight`: the initial value of the weight.
  LayerNorm(Module& parent, std::string_view name, std::int64_t channels, double eps = 1e-6, double weight = 1,
            bool bias = true);
  Variable forward(Variable x) const;

 private:
  double eps_;
  Parameter weight_;
  std::optional<Parameter> bias_;
};

/// Root mean square norm over tokens [..., heads · C], each of the heads by itself, with weight [C]: y = x̂ · (offset +
/// weight). The weight starts at 1 - offset.
class RmsNorm : public Module {
 public:
  RmsNorm(Module& parent, std::string_view name, std::int64_t channels, double eps = 1e-6, double offset = 0);
  Variable forward(Variable x) const;
  /// rotary(forward(x)) in one op, x [1, T, heads · C].
  Variable forward_rotary(Variable x, Rotary rotary) const;

 private:
  lacuna::RmsNorm op_of(const Variable& x) const;

  double eps_, offset_;
  Parameter weight_;
};

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
  double weight = 1;  // initial value
};

/// Batch norm over all but the last axis of images [N, H, W, C], with weight and bias [C] and the semantics and state
/// of torch.nn.BatchNorm2d. Training uses the batch's statistics and updates the running ones (momentum 0.1, unbiased
/// variance); evaluation uses the running ones. If the user froze weight and bias, training also uses the running
/// statistics and does not update them, so that a frozen layer does not drift with the data.
class BatchNorm2d : public Module {
 public:
  BatchNorm2d(Module& parent, std::string_view name, std::int64_t channels, const BatchNormOptions& options = {});

  Variable forward(Variable x);
  /// max(norm(x), 0), in one pass.
  Variable forward_relu(Variable x);
  /// max(norm(x) + residual, 0), in one pass.
  Variable forward_add_relu(Variable x, Variable residual);

  /// Makes training use the statistics over the batches of all ranks, which must have equal sizes
  /// (torch.nn.SyncBatchNorm). `ranks` must outlive the layer.
  void synchronize(Communicator& ranks) { ranks_ = ranks.size() > 1 ? &ranks : nullptr; }
  /// Makes the layer one that is never trained, whatever is (torchvision's FrozenBatchNorm2d).
  void fix(double eps);
  bool frozen() const { return frozen_; }
  void on_freeze() override;

 private:
  bool uses_running_statistics() const { return frozen_ || !training(); }
  /// Runs an op that normalises with the batch's statistics, and updates the running ones.
  template <class Op, class... Residual>
  Variable with_batch_statistics(Variable x, Residual... residual);
  template <class Op, class... Residual>
  Variable with_running_statistics(Variable x, Residual... residual);
  void update_running_statistics(const Tensor& mean, const Tensor& variance, std::int64_t rows);

  double eps_, momentum_;
  bool frozen_ = false, fixed_ = false;
  Communicator* ranks_ = nullptr;
  Parameter weight_, bias_;
  Buffer running_mean_, running_var_;
  Buffer num_batches_tracked_;  // i64 []
};

}  // namespace lacuna::nn
