// Tasks: the losses and metrics of a training run, by name. A new one only adds a file: it registers itself.
#pragma once

#include "core/communicator.h"
#include "core/registry.h"
#include "core/schema.h"
#include "data/dataset.h"
#include "models/figures.h"
#include "models/model.h"
#include "ops/arithmetic/factor.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

class ProbeHeads;
struct Prediction;

/// A figure over a data set that follows from sums over its batches: [correct, samples] for accuracy, a confusion
/// matrix for the mean intersection over union.
struct Metric {
  std::string name;  // as in `accuracy`: the key in metrics files
  bool higher_is_better = true;
  std::int64_t sums = 1;                          // how many numbers each batch adds to
  double (*value)(std::span<const double> sums);  // the figure of all batches together
  bool keeps = false;  // the batches' numbers are put one behind another instead of added up: for ranks
};

/// A metric's value: the first sum by the second.
inline double ratio_of_sums(std::span<const double> sums) { return sums[0] / sums[1]; }

enum class TaskMode : std::uint8_t { train, evaluate };

/// Results of one batch. Nothing in it has been read by the host.
struct TaskResult {
  Variable loss;             // [], a mean of which Task::weight tells the weight
  std::vector<Tensor> sums;  // f64 [metric.sums], or any number of them where it keeps them; for each metric in order
  /// In place of `sums` where the host counts: gives them, after the work of a cuda device on the batch.
  std::function<std::vector<Tensor>()> sums_of_host{};
};

/// A task may hold state of its own, such as the frozen teacher of a distillation; it reads as many outputs of the
/// model as it needs.
class Task {
 public:
  explicit Task(std::vector<Metric> metrics) : metrics_(std::move(metrics)) {}
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  const std::vector<Metric>& metrics() const { return metrics_; }
  /// The metric that decides which checkpoint of a run is the best.
  const Metric& best_metric() const { return metrics_.front(); }

  /// Takes the description of the data set: names of the classes, mean and deviation with which images are normalized,
  /// the vocabulary of texts.
  virtual void see(const DatasetInfo& data) { data_ = data; }

  /// Notes that a user should read before training.
  virtual std::vector<std::string> notes() const { return {}; }

  /// The fields of a sample that it reads beside the model's inputs, such as `labels`.
  virtual SampleFields targets() const = 0;
  /// How much the loss of `run` weighs beside those of other batches: a loss of several is Σ weight · loss / Σ weight.
  /// Tasks whose loss is a mean of labelled tokens, say, count these, so that it does not depend on how samples are cut
  /// into micro-batches, ranks and batches of an evaluation. 0: the batch has nothing to learn from.
  virtual double weight(const Batch& batch, TaskMode /*mode*/) const { return static_cast<double>(batch.samples); }
  /// A training batch of the host with what the host alone computes from it: targets, hidden tokens, the rows with
  /// labels. `run` does the same with a batch that is not prepared; `weight` takes none that is.
  virtual Batch prepared(Batch batch) const { return batch; }
  /// Whether kernels alone read a field of a prepared batch in training: it may lie on the model's device then, and a
  /// captured step is replayed with other values of it (models/trainer_graph.cpp). For all other fields it is replayed
  /// with the same values only.
  virtual bool is_read_by_kernels(std::string_view /*field*/) const { return false; }
  /// Makes what the task holds beside `model`, as a teacher, before the first step. `run` does it where nobody did.
  virtual void prepare(const Model& /*model*/) const {}
  /// Runs the model over a batch; the loss is recorded if a tape is recording. Move the batch to free what forward
  /// needs no longer.
  virtual TaskResult run(Model& model, Inputs batch, TaskMode mode) const = 0;

  /// Predictions for the samples of a batch that has the model's inputs alone. Rejects the call by default.
  virtual std::vector<Prediction> predict(Model& model, Inputs batch) const;

  /// Empty figures of the task's kind; null: it has none.
  virtual std::unique_ptr<Figures> figures() const { return nullptr; }
  /// Lets evaluations add their batches to `figures`, which outlives them; null: to none.
  void fill(Figures* figures) { figures_ = figures; }

 protected:
  /// Empty before `see`.
  const DatasetInfo& data() const { return data_; }
  /// Whether `field` is an input that models copy to their device as it is.
  static bool is_copied_by_models(std::string_view field);
  /// Adds a batch to the figures that are to be filled, if any.
  void show(const Tensor& outputs, const Tensor& targets) const {
    if (figures_ != nullptr) figures_->add(outputs, targets);
  }
  /// Sets the sums of a result whose tensors are on `device` to what the host counts: on a cuda device later, since the
  /// host would wait for it.
  static void count_on_host(Device device, std::function<std::vector<Tensor>()> sums, TaskResult& result) {
    if (device.kind == DeviceKind::cuda)
      result.sums_of_host = std::move(sums);
    else
      result.sums = sums();
  }

 private:
  std::vector<Metric> metrics_;
  DatasetInfo data_;
  Figures* figures_ = nullptr;
};

/// Loss and metrics of several batches, on the host.
struct TaskTotals {
  double loss_sum = 0;  // Σ loss of a batch · its weight
  double weight = 0;    // Σ Task::weight
  std::int64_t samples = 0;
  std::map<std::string, std::vector<double>> sums{};  // by metric
  std::map<std::string, std::vector<double>> kept{};  // of metrics that keep their numbers

  /// 0 where nothing has a weight.
  double loss() const { return weight > 0 ? loss_sum / weight : 0; }
  /// An error where nothing was added for the metric.
  double value(const Metric& metric) const;
  /// Whether numbers were added: a task may keep none in training.
  bool has(const Metric& metric) const;
  /// Values of its metrics, by name, in the order of the task's.
  std::vector<std::pair<std::string, double>> values(const Task& task) const;
  void add(const TaskTotals& other);
};
TaskTotals sum_of(std::span<const TaskTotals> parts);
/// Every rank's totals, on all ranks.
std::vector<TaskTotals> all_totals(const TaskTotals& mine, const Task& task, Communicator& ranks);

/// The same while batches are running: sums stay on their device until they are read.
class RunningTotals {
 public:
  explicit RunningTotals(const Task& task) : task_(task) {}
  void add(const TaskResult& result, std::int64_t samples, const Factor& weight);
  /// Lets the host count what is left to it, so that tensors of the batch are freed.
  void count_on_host();
  /// Reads the sums, over all ranks.
  TaskTotals read(Communicator& ranks);
  /// Reads them after a replay of the captured step that adds to them, with batches of this weight.
  TaskTotals read_replayed(double weight, Communicator& ranks) const;
  /// The sums on the device that `totals_of` reads; empty where the host counts, or a metric keeps its numbers.
  std::vector<Tensor> numbers() const;
  std::int64_t samples() const { return samples_; }
  /// The totals of a replay whose `numbers` were these, with batches of this weight.
  TaskTotals totals_of(std::span<const double> numbers, double weight) const;

 private:
  void add_sums(const std::vector<Tensor>& sums);

  const Task& task_;
  std::vector<std::function<std::vector<Tensor>()>> left_to_host_;
  Tensor loss_sum_;  // f64 []
  std::vector<Tensor> sums_;
  std::vector<std::vector<Tensor>> kept_;  // of each metric that keeps its numbers
  std::int64_t samples_ = 0;
  double weight_ = 0;
};

/// The help of the option that several tasks have.
inline constexpr std::string_view label_smoothing_help = "label smoothing of the training targets";

/// A task by name.
struct TaskKind {
  Options options;  // with their defaults
  /// For the given model, whose outputs it checks.
  std::function<std::unique_ptr<Task>(const Options&, const Model&)> make;
  std::string_view head{};  // the hyper-parameter `head` of models that have several; empty: their own
  /// The `problem_type` of transformers' folders with its models, or `head` for heads without one; empty: folders name
  /// no such task.
  std::string_view problem{};
  /// `data.crop_mode` where neither configuration, folder nor preset says one; empty: the usual one.
  std::string_view crop_mode{};
  bool learns_numbers = false;  // labels are numbers, though all of a data set may be whole
  /// The heads that are trained on cached features of the given model, in its place; null: the model is trained.
  std::function<std::unique_ptr<ProbeHeads>(const Options&, const Model& classifier)> heads{};
};
Registry<TaskKind>& tasks();

/// The task `name` for `model`; rejects unknown names and options, and a model whose outputs do not fit.
std::unique_ptr<Task> make_task(std::string_view name, const OptionValues& given, const Model& model);

/// A static object of this type in the task's source file registers it.
struct RegisterTask {
  RegisterTask(std::string_view name, TaskKind kind) { tasks().add(name, std::move(kind)); }
};

}  // namespace lacuna
