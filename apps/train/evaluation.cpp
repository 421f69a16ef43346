#include "apps/train/evaluation.h"

#include "apps/config/resolve.h"
#include "apps/train/interrupt.h"
#include "data/loader.h"
#include "ops/loss.h"

namespace lacuna::apps {
namespace {

/// The model evaluates while this lives.
class EvaluationMode {
 public:
  explicit EvaluationMode(Model& model) : model_(model), before_(model.training()) { model_.set_training(false); }
  ~EvaluationMode() { model_.set_training(before_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Model& model_;
  bool before_;
};

}  // namespace

std::optional<Evaluation> evaluate(Model& model, const std::shared_ptr<const Dataset>& dataset,
                                   const Configuration& resolved) {
  const EvaluationMode mode(model);
  // As many images at once as training has: what it is cut for does not grow here.
  Loader loader(batches_of(resolved, dataset, Split::validation),
                {.end_epoch = 1, .workers = static_cast<int>(resolved.data.workers)});
  double loss_sum = 0;
  std::int64_t samples = 0;
  const Tensor correct = Tensor::zeros({}, DType::i64, Device::cpu, Purpose::workspace);
  while (std::optional<Batch> batch = loader.next()) {
    if (InterruptGuard::signal() != 0) return {};
    const Variable logits = model.forward(Variable(batch->take("images")));
    const Variable loss = apply(CrossEntropy{}, logits, Variable((*batch)["labels"]));
    const std::int64_t count = batch->samples;
    loss_sum += loss.tensor().item() * static_cast<double>(count);
    count_correct(logits.tensor(), (*batch)["labels"], correct);
    samples += count;
  }
  if (samples == 0) reject("data.val_size: there are no images to evaluate on");
  const auto n = static_cast<double>(samples);
  return Evaluation{.loss = loss_sum / n, .accuracy = correct.item() / n, .samples = samples};
}

}  // namespace lacuna::apps
