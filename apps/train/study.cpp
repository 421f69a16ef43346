#include "apps/train/study.h"

#include "autograd/accumulate.h"

#include <algorithm>
#include <unordered_map>

namespace lacuna::apps {
namespace {

std::vector<Parameter*> trainable_parameters(const Training& training) {
  std::vector<Parameter*> all = training.model().parameters();
  std::erase_if(all, [](const Parameter* parameter) { return !parameter->trainable(); });
  return all;
}

/// Puts the gradients that parameters have aside for as long as it lives.
class GradientsAside {
 public:
  explicit GradientsAside(std::vector<Parameter*> trainable) : parameters_(std::move(trainable)), aside_(take()) {}
  ~GradientsAside() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i]->set_grad(std::move(aside_[i]));
  }
  GradientsAside(const GradientsAside&) = delete;
  GradientsAside& operator=(const GradientsAside&) = delete;

  /// Those of now, as the parameters; none are left.
  std::vector<Tensor> take() const {
    std::vector<Tensor> all;
    for (Parameter* parameter : parameters_) {
      all.push_back(parameter->grad());
      parameter->set_grad({});
    }
    return all;
  }

 private:
  std::vector<Parameter*> parameters_;
  std::vector<Tensor> aside_;
};

void run_trial(Training& training, MicroBatch batch, MemoryPolicy& policy, const BackwardOptions& options = {}) {
  Tape tape(policy);
  tape.set_trial();
  tape.set_error_measure(training.error_measure());
  const Variable loss = [&] {
    const Recording recording(tape);
    return training.loss(std::move(batch));
  }();
  tape.backward({{loss, Tensor::full(loss.shape(), 1, loss.dtype(), loss.tensor().device())}}, options);
}

void study_draws(Training& training, const MicroBatch& batch, MemoryPolicy& policy, DrawStudy& study) {
  const GradientsAside aside(trainable_parameters(training));
  const auto gradients = [&] {
    run_trial(training, batch, policy);
    return aside.take();
  };
  const std::vector<Tensor> usual = gradients();
  const ErrorMeasure measure = training.error_measure();
  const std::set<std::string> keys = study.coded;
  for (const std::string& key : keys) {
    study.redrawn = key;
    const std::vector<Tensor> redrawn = gradients();
    double square = 0;
    for (std::size_t i = 0; i < usual.size(); ++i)
      if (usual[i].defined()) square += counted_error(redrawn[i], usual[i], usual[i], measure);
    study.variances[key] = square / 2;
    if (batch.images.device() == Device::meta) break;  // one tells how much memory a pass takes, and none more
  }
}

/// A sixth of a batch at 8 bits takes less than all of it at two, though the batch is held besides, and tells as much
/// about what tensors are worth beside each other. Norms over the batch need two samples.
MicroBatch part_to_study(const MicroBatch& batch) {
  constexpr std::int64_t share = 6, least = 2;
  const std::int64_t samples = batch.targets.count(), part = std::min(samples, std::max(samples / share, least));
  return {batch.images.leading(0, part), batch.targets.leading(0, part), batch.image_gradient};
}

/// One pass over part of the batch, in which backward measures. Its own gradients go as soon as they are there.
void study_part(Training& training, const MicroBatch& batch, MemoryPolicy& policy) {
  const std::vector<Parameter*> trainable = trainable_parameters(training);
  const GradientsAside aside(trainable);
  std::unordered_map<const Leaf*, Parameter*> of_leaf;
  for (Parameter* parameter : trainable) of_leaf.emplace(parameter->variable().leaf(), parameter);
  run_trial(training, part_to_study(batch), policy, {.post_accumulate_grad_hooks = {[&](const Leaf& leaf) {
                                                       if (const auto found = of_leaf.find(&leaf);
                                                           found != of_leaf.end())
                                                         found->second->set_grad({});
                                                     }}});
}

}  // namespace

bool study(Training& training, const MicroBatch& batch, MemoryPolicy& policy) {
  if (DrawStudy* const draws = policy.draw_study())
    study_draws(training, batch, policy, *draws);
  else if (policy.begin_study())
    study_part(training, batch, policy);
  else
    return false;
  policy.end_study();
  return true;
}

}  // namespace lacuna::apps
