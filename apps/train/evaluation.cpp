#include "apps/train/evaluation.h"

#include "apps/config/resolve.h"
#include "apps/train/interrupt.h"
#include "data/loader.h"

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

std::optional<Evaluation> evaluate(Model& model, const Task& task, const std::shared_ptr<const Dataset>& dataset,
                                   const Configuration& resolved) {
  const EvaluationMode mode(model);
  Loader loader(batches_of(resolved, dataset, Split::validation),
                {.end_epoch = 1, .workers = static_cast<int>(resolved.data.workers)});
  RunningTotals running(task);
  while (std::optional<Batch> batch = loader.next()) {
    if (InterruptGuard::signal() != 0) return {};
    const std::int64_t samples = batch->samples;
    running.add(task.run(model, std::move(*batch), TaskMode::evaluate), samples);
  }
  const TaskTotals totals = running.read(single_process());
  return Evaluation{.loss = totals.loss(), .accuracy = totals.value(task.best_metric()), .samples = totals.samples};
}

}  // namespace lacuna::apps
