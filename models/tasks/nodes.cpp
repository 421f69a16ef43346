// Classes of the nodes of a graph: cross entropy, or for several labels a node binary cross entropy, of the rows
// `nodes` [M] of the output `logits` [V, C].
#include "autograd/tape.h"
#include "data/dataset.h"
#include "models/prediction.h"
#include "models/task.h"
#include "models/tasks/accuracy.h"
#include "models/tasks/class_figures.h"
#include "models/tasks/label_figures.h"
#include "models/tasks/multi_label.h"
#include "nn/functional.h"
#include "ops/losses/binary_cross_entropy.h"
#include "ops/shapes/embedding.h"

namespace lacuna {
namespace {

struct NodeOptions {
  double label_smoothing = 0;

  static Fields fields() {
    return {field("label_smoothing", &NodeOptions::label_smoothing, up_to(1), label_smoothing_help)};
  }
};

/// The nodes that a split has, and their labels: a data set gives those of training in its part for training.
SampleFields node_targets(std::int64_t classes, bool several) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  SampleField nodes{.name = "nodes",
                    .kind = FieldKind::edges,
                    .dtype = DType::i64,
                    .shape = {most},
                    .collation = Collation::packed,
                    .lengths = "node_offsets"};
  SampleField labels = nodes;
  labels.name = "labels";
  labels.kind = FieldKind::label;
  labels.dtype = several ? DType::f32 : DType::i64;
  labels.shape = several ? Shape{most, classes} : Shape{most};
  labels.below = several ? 0 : classes;
  return {nodes, labels};
}

class Nodes : public Task {
 public:
  Nodes(const Model& model, std::vector<Metric> metrics, bool several)
      : Task(std::move(metrics)), classes_(model.num_classes()), several_(several) {}

  SampleFields targets() const final { return node_targets(classes_, several_); }
  double weight(const Batch& batch, TaskMode) const final { return static_cast<double>(batch["nodes"].count()); }

  bool is_read_by_kernels(std::string_view field) const final {
    return field == "labels" || field == "nodes" || field == "features";
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const final {
    const Tensor labels = batch.take("labels").tensor(), nodes = batch.take("nodes", model.context().device).tensor();
    if (nodes.count() == 0) reject("the split of the graph has no nodes with labels: expected one or more");
    Variable logits = model.forward(std::move(batch)).take("logits");
    const Shape all{1, logits.shape()[0], classes_};  // a selection of activations
    logits = logits.reshape(all);
    logits = apply(Embedding{.shape = all, .dtype = logits.dtype()}, std::move(logits), Variable(nodes), Variable());
    const std::int64_t count = logits.tensor().rows();
    logits = logits.reshape({count, classes_});
    const Tensor targets = targets_of(logits, labels);
    TaskResult result;
    learn(std::move(logits), labels, targets, mode, result);
    // While `nodes` and `targets` are held here: they are data, whether or not an op keeps them.
    if (Tape* const tape = Tape::current()) tape->finalize_released();
    return result;
  }

  /// One for each node.
  std::vector<Prediction> predict(Model& model, Inputs batch) const final {
    return class_predictions(model.forward(std::move(batch)).take("logits").tensor(), data().classes,
                             several_ ? "labels" : "");
  }

 private:
  /// Labels [M], or [M, C], as the loss of logits [M, C] takes them, on their device.
  virtual Tensor targets_of(const Variable& logits, const Tensor& labels) const = 0;
  /// Sets loss and sums. labels: on the host.
  virtual void learn(Variable logits, const Tensor& labels, const Tensor& targets, TaskMode mode,
                     TaskResult& result) const = 0;

  std::int64_t classes_;
  bool several_;
};

class NodeClassification final : public Nodes {
 public:
  NodeClassification(const NodeOptions& options, const Model& model)
      : Nodes(model, accuracy_metrics(model), false), label_smoothing_(options.label_smoothing) {}

  std::unique_ptr<Figures> figures() const override { return std::make_unique<ClassFigures>(data().classes); }

 private:
  Tensor targets_of(const Variable& logits, const Tensor& labels) const override {
    return class_targets(logits, Variable(labels)).tensor();
  }
  void learn(Variable logits, const Tensor& labels, const Tensor& targets, TaskMode mode,
             TaskResult& result) const override {
    result.sums = accuracy_sums(logits.tensor(), targets, metrics().size());
    if (mode == TaskMode::evaluate) show(logits.tensor(), labels);
    result.loss = cross_entropy(std::move(logits), Variable(targets), mode == TaskMode::train ? label_smoothing_ : 0);
  }

  double label_smoothing_;
};

class NodeMultiLabel final : public Nodes {
 public:
  explicit NodeMultiLabel(const Model& model) : Nodes(model, multi_label_metrics(), true) {}

  std::unique_ptr<Figures> figures() const override { return std::make_unique<LabelFigures>(data().classes); }

 private:
  Tensor targets_of(const Variable& logits, const Tensor& labels) const override {
    return on_device(labels, logits.device());
  }
  void learn(Variable logits, const Tensor& labels, const Tensor& targets, TaskMode mode,
             TaskResult& result) const override {
    if (mode == TaskMode::evaluate) show(logits.tensor(), labels);
    count_on_host(
        logits.device(), [z = logits.tensor(), wanted = labels] { return multi_label_sums(z, wanted); }, result);
    result.loss = apply(BinaryCrossEntropy{}, std::move(logits), Variable(targets));
  }
};

const RegisterTask node_classification("node_classification", {.options = NodeOptions{},
                                                               .make = [](const Options& options, const Model& model) {
                                                                 return std::make_unique<NodeClassification>(
                                                                     options.as<NodeOptions>(), model);
                                                               }});
const RegisterTask node_multi_label("node_multi_label", {.options = {}, .make = [](const Options&, const Model& model) {
                                                           return std::make_unique<NodeMultiLabel>(model);
                                                         }});

}  // namespace
}  // namespace lacuna
