// Distillation (Hinton et al. 2015; Touvron et al. 2021): classification that also follows a frozen teacher.
#include "models/io/weights.h"
#include "models/registry.h"
#include "models/task.h"
#include "models/tasks/accuracy.h"
#include "nn/functional.h"
#include "ops/loss.h"
#include "ops/top_k.h"

#include <utility>

namespace lacuna {
namespace {

/// The model `name` for the student's images and classes, with the weights of `from` (a file, or a folder with
/// `model.safetensors`), in evaluation mode and without gradients.
std::unique_ptr<Model> make_teacher(const std::string& name, const std::string& from, const Model& student) {
  const Shape& image = field_of(student.inputs(), "images").shape;  // [H, W, C]
  const HyperValue size = image[0] == image[1] ? HyperValue(image[0]) : HyperValue(std::vector{image[0], image[1]});
  std::unique_ptr<Model> teacher =
      build_model(name, {{"image_size", size}, {"in_channels", image[2]}, {"num_classes", student.num_classes()}},
                  {.device = student.context().device, .dtype = student.context().dtype, .training = false});
  const WeightFiles file(from);
  const std::int64_t classes = student.num_classes();
  const LoadedWeights judged = check_weights(*teacher, file, {.new_head = true});
  if (judged.new_head && judged.file_classes > 0 && judged.file_classes != classes)
    reject("task distillation: {}: expected a teacher of the student's {} classes, got one of {}", file.path().string(),
           classes, judged.file_classes);
  if (student.context().device == Device::meta)
    check_weights(*teacher, file);
  else
    load_weights(*teacher, file);
  for (Parameter* const parameter : teacher->parameters()) parameter->set_trainable(false);
  return teacher;
}

/// loss = base_weight · CE(class logits, labels) + distill_weight · D(distillation logits, teacher's logits).
///
/// hard: D = CE(logits, the teacher's best class). soft: D = τ² · KL(softmax(teacher / τ) ‖ softmax(logits / τ)), the
/// mean over the batch (timm's task) or, with `per_class`, over all elements of the logits (DeiT's own code).
/// In evaluation the loss is the cross entropy of `logits`.
class Distillation final : public Task {
 public:
  Distillation(const Settings& settings, const Model& model)
      : Task(accuracy_metrics(model)),
        teacher_name_(settings.text("teacher")),
        teacher_from_(settings.text("teacher_from")),
        classes_(model.num_classes()),
        hard_(settings.flag("hard")),
        per_class_(settings.flag("per_class")),
        temperature_(settings.number("temperature")),
        base_weight_(settings.number("base_weight")),
        distill_weight_(settings.number("distill_weight")),
        label_smoothing_(settings.number("label_smoothing")) {
    if (teacher_name_.empty())
      reject("task distillation: `teacher` names the teacher's model, as regnety_160 or resnet50");
    if (teacher_from_.empty())
      reject("task distillation: `teacher_from` names the file or folder with the weights of {}", teacher_name_);
    describe_model(teacher_name_, {});  // refuses an unknown name
  }

  SampleFields targets() const override {
    return {{.name = "labels", .dtype = DType::i64, .shape = {}, .below = classes_}};
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    Variable labels = batch.take("labels");
    TaskResult result;
    if (mode == TaskMode::evaluate) {
      Variable logits = model.forward(std::move(batch)).take("logits");
      check_class_targets(logits, labels);
      result.sums = accuracy_sums(logits.tensor(), labels.tensor(), metrics().size());
      result.loss = cross_entropy(std::move(logits), std::move(labels));
      return result;
    }
    const Tensor taught = teacher_logits(batch, model);  // [N, C]
    Outputs outputs = model.forward(std::move(batch));
    Variable logits = outputs.take("logits");
    check_class_targets(logits, labels);
    result.sums = accuracy_sums(logits.tensor(), labels.tensor(), metrics().size());
    // A model with one head follows the labels and the teacher with it.
    Variable by_label = outputs.contains("logits_class") ? outputs.take("logits_class") : logits;
    Variable by_teacher = outputs.contains("logits_distilled") ? outputs.take("logits_distilled") : std::move(logits);
    Variable base = cross_entropy(std::move(by_label), std::move(labels), label_smoothing_);
    result.loss = base_weight_ * std::move(base) + distill_weight_ * distance(std::move(by_teacher), taught);
    return result;
  }

 private:
  /// Of the batch as the student sees it.
  Tensor teacher_logits(const Inputs& batch, const Model& student) const {
    const NoGrad no_grad;
    if (!teacher_) teacher_ = make_teacher(teacher_name_, teacher_from_, student);
    Inputs inputs;
    inputs.set("images", batch.at("images"));
    return teacher_->forward(std::move(inputs)).take("logits").tensor();
  }
  Variable distance(Variable logits, const Tensor& taught) const {
    if (hard_) {
      const Tensor best = Tensor::empty({taught.rows()}, DType::i64, taught.device());
      find_largest(taught.device(), taught, best);
      return cross_entropy(std::move(logits), Variable(best));
    }
    // KL(t ‖ s) = CE(s, t) − CE(t, t): the second term is the teacher's entropy, without gradient.
    const auto [targets, entropy] = [&] {
      const NoGrad no_grad;
      Variable scaled = Variable(taught.to(DType::f32)) / temperature_;
      Variable probabilities = softmax(scaled);
      return std::pair(probabilities, cross_entropy(std::move(scaled), probabilities));
    }();
    const double scale = temperature_ * temperature_ / static_cast<double>(per_class_ ? classes_ : 1);
    return scale * (cross_entropy(std::move(logits) / temperature_, targets) - entropy);
  }

  std::string teacher_name_, teacher_from_;
  mutable std::unique_ptr<Model> teacher_;  // from the first step on: an evaluation needs none
  std::int64_t classes_;
  bool hard_, per_class_;
  double temperature_, base_weight_, distill_weight_, label_smoothing_;
};

constexpr SettingRange positive{.low = 1e-6};

const RegisterTask distillation(
    "distillation",
    {.settings = {{"teacher", std::string(), {}, "name of the teacher's model"},
                  {"teacher_from", std::string(), {}, "its weights: a .safetensors file or a folder"},
                  {"hard", false, {}, "follow the teacher's best class instead of its probabilities"},
                  {"temperature", 1.0, positive, "τ of the soft form; timm's default is 4"},
                  {"per_class", true, {}, "divide the soft form by the classes too, as DeiT's code; false: timm's"},
                  {"base_weight", 0.5, not_negative, "of the cross entropy with the labels (DeiT's 1 − α)"},
                  {"distill_weight", 0.5, not_negative, "of the distance to the teacher (DeiT's α)"},
                  {"label_smoothing", 0.0, up_to_one, "share of the uniform distribution in the labels' targets"}},
     .make = [](const Settings& settings,
                const Model& model) { return std::make_unique<Distillation>(settings, model); },
     .weights = {"teacher_from"}});

}  // namespace
}  // namespace lacuna
