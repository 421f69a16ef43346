// A configuration made ready to train: model, frozen set, optimizer, policy; and one training step of it.
#pragma once

#include "apps/config/configuration.h"
#include "autograd/policies/rules.h"
#include "autograd/sensitivity.h"
#include "autograd/tape.h"
#include "core/parallel.h"
#include "models/io/weights.h"
#include "optim/clip.h"
#include "optim/ema.h"
#include "optim/optimizer.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

namespace lacuna::apps {

/// A part of a batch: what goes through the model at once.
struct MicroBatch {
  Tensor images;                // [N, H, W, C]
  Tensor targets;               // i64 [N]
  bool image_gradient = false;  // whether the images want a gradient themselves, as for adversarial examples
};

/// Bytes by the module whose op made the tensors, or by that op where there is no module; in the order of forward.
using BytesByPath = std::vector<std::pair<Label, std::int64_t>>;

/// What a training step tells.
struct StepOutcome {
  double loss = 0;           // mean over the batch; 0 on `meta`, as all values
  std::int64_t correct = 0;  // samples whose largest logit is the target's
  std::int64_t samples = 0;
  double gradient_norm = 0;               // of all gradients together, before clipping; 0 on `meta`
  std::string nonfinite;                  // the parameter whose gradient is not finite, if one is
  bool updated = false;                   // some parameter was: with a gradient that is not finite, in backward alone
  std::int64_t saved_bytes = 0;           // held at the end of the forward pass, the largest of the micro-batches
  BytesByPath saved_by_path;              // the same
  std::vector<double> measuring_seconds;  // that each measurement took which the policy asked for
  bool finite() const { return std::isfinite(loss) && std::isfinite(gradient_norm); }
};

struct MadeModel {
  std::unique_ptr<Model> model;
  LoadedWeights weights;  // of `model.from`
};
/// The model of a resolved configuration, with the weights of `model.from` where that is set. `new_head`: where the
/// file has another classifier or none, the model's starts anew.
MadeModel make_model(const Configuration& configuration, Device device, bool new_head);

class Training {
 public:
  /// Builds everything on `device` and sets the number of threads.
  Training(const Configuration& configuration, Device device);

  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  Optimizer& optimizer() { return *optimizer_; }
  /// Of the weights, which is evaluated in their place; null where none is kept.
  WeightAverage* average() { return average_.get(); }
  RuledPolicy& policy() { return *policy_; }
  const RuledPolicy& policy() const { return *policy_; }
  /// What each pattern of `freeze:` matched.
  const std::vector<FreezeMatch>& freeze_matches() const { return freeze_matches_; }
  /// What became of the classifier of `model.from`.
  const LoadedWeights& loaded_weights() const { return loaded_weights_; }
  std::int64_t trainable_count() const;

  /// Forward, backward and update over the micro-batches of one batch: step number `number` of the run, which its
  /// random draws depend on. A loss or a gradient that is not finite ends the step before anything is updated, or with
  /// `optimizer.in_backward` before the parameters in front of it are: the outcome tells. `observer` may be null. A
  /// batch of one part that the caller moves here is given up: forward needs it but for what the policy then holds.
  StepOutcome step(std::vector<MicroBatch> batch, std::int64_t number, double lr, Observer* observer = nullptr);
  /// The loss [] of a micro-batch, recorded if a tape is recording. Adds the number of samples predicted correctly to
  /// `correct`, i64 [], if it is defined.
  Variable loss(MicroBatch batch, const Tensor& correct = {});
  /// The same of part `i` of a batch, which is given up where it is the only one: several are views of one memory.
  Variable loss_of_part(std::vector<MicroBatch>& batch, std::size_t i, const Tensor& correct = {});
  /// How errors of the gradient count for the optimizer.
  ErrorMeasure error_measure() const;

 private:
  ThreadCountScope threads_;
  std::uint64_t seed_;
  double label_smoothing_;
  Clipping clipping_;
  bool in_backward_;
  std::unique_ptr<RuledPolicy> policy_;
  std::unique_ptr<Model> model_;
  LoadedWeights loaded_weights_;
  std::vector<FreezeMatch> freeze_matches_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<WeightAverage> average_;
};

/// Refuses a policy with rules or regions that applied to nothing, after a forward pass of the whole model.
void refuse_unmatched(const RuledPolicy& policy);

/// The type of activations for `train.precision`.
DType precision_type(const std::string& precision);

}  // namespace lacuna::apps
