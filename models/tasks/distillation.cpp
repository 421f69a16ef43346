// Distillation (Hinton et al. 2015; Touvron et al. 2021): classification that also follows a frozen teacher.
#include "data/class_names.h"
#include "data/dataset.h"
#include "data/pipeline.h"
#include "models/folders/folder.h"
#include "models/prediction.h"
#include "models/registry.h"
#include "models/task.h"
#include "models/tasks/accuracy.h"
#include "models/tasks/class_figures.h"
#include "nn/functional.h"
#include "nn/weight_formats.h"
#include "ops/losses/loss.h"
#include "ops/losses/top_k.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace lacuna {
namespace {

struct Teacher {
  std::unique_ptr<Model> model;
  ImagePreparation images;  // as it wants them; empty: not said
};

/// The description of the teacher in `from`; `name` replaces it or must agree with it.
ModelFolder describe_teacher(const std::string& name, const std::string& from) {
  std::optional<ModelFolder> folder = read_model_folder(from);
  if (!folder && name.empty())
    reject("task distillation: `teacher` names the teacher's model, since {} has no config.json that does", from);
  if (!folder) return {.model = name};
  const auto family = [](const std::string& model) { return describe_model(model, {}).family; };
  if (!name.empty() && family(name) != family(folder->model))
    reject("task distillation: `teacher` is {}, but {} describes a {}", name, folder->config.string(), folder->model);
  return std::move(*folder);
}

/// The data's classes in the teacher's; nothing where no names are known. Refuses a teacher of other classes.
std::optional<JoinedClasses> joined_classes(const ModelFolder& teacher, std::int64_t count,
                                            const std::vector<std::string>& data) {
  if (std::ssize(data) != count) return {};
  std::optional<JoinedClasses> joined =
      join_classes(teacher.labels, teacher.labels.empty() ? count : std::ssize(teacher.labels), data);
  if (!joined || (!teacher.labels.empty() && std::ssize(teacher.labels) != count))
    reject("task distillation: expected a teacher of the data's classes: {}", both_lists(teacher.labels, data));
  return joined;
}

/// Puts the rows of the heads into the order of the data's classes: `numbers`, those of the model's.
void order_classes(const std::vector<std::int64_t>& numbers, const Model& model) {
  for (const Parameter* const parameter : model.parameters()) {
    const bool of_head = std::ranges::any_of(
        model.heads(), [&](const std::string& head) { return belongs_to(parameter->path(), head); });
    if (!of_head || parameter->shape().front() != std::ssize(numbers)) continue;
    const Tensor stored = parameter->tensor().clone(Purpose::parameters);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto to = static_cast<std::int64_t>(i);
      parameter->tensor().leading(to, to + 1).copy_from(stored.leading(numbers[i], numbers[i] + 1));
    }
  }
}

/// The teacher for the student's images and classes, with the weights of `from` (a file or a folder) in `types`, in
/// evaluation mode and without gradients. Its head, whose rows may be reordered, is f32.
Teacher make_teacher(const std::string& name, const std::string& from, std::span<const std::string> types,
                     const Model& student, const std::vector<std::string>& names) {
  const ModelFolder folder = describe_teacher(name, from);
  const std::optional<JoinedClasses> joined = joined_classes(folder, student.num_classes(), names);
  const Shape& image = field_of(student.inputs(), "images").shape;  // [H, W, C]
  const Tree size = image[0] == image[1] ? Tree(image[0]) : Tree(std::vector{image[0], image[1]});
  std::vector<HyperParameter> values = folder.hyper_parameters;
  values.insert(values.end(),
                {{"image_size", size}, {"in_channels", image[2]}, {"num_classes", student.num_classes()}});
  const std::string& model = name.empty() || folder.config.empty() ? folder.model : name;
  FolderWeights weights =
      open_weights(from, folder.config.empty() ? std::optional<ModelFolder>() : std::optional(folder));
  std::shared_ptr<const WeightFormats> formats = formats_of(model, values, weights, {types, "task.teacher_weights"});
  if (formats) {
    WeightFormats body = *formats;
    const std::unique_ptr<Model> shape = build_model(model, values, {.device = Device::meta});
    for (const std::string& head : shape->heads())
      std::erase_if(body, [&](const auto& one) { return belongs_to(one.first, head); });
    formats = std::make_shared<const WeightFormats>(std::move(body));
  }
  std::unique_ptr<Model> teacher = build_model(model, values,
                                               {.device = student.context().device,
                                                .dtype = student.context().dtype,
                                                .training = false,
                                                .formats = std::move(formats)});
  const std::int64_t classes = student.num_classes();
  LoadOptions as_any = weights.options;
  as_any.new_head = true;
  const LoadedWeights judged = check_weights(*teacher, weights.files, as_any);
  if (judged.new_head && judged.file_classes > 0 && judged.file_classes != classes)
    reject("task distillation: {}: expected a teacher of the student's {} classes, got one of {}",
           weights.files.path().string(), classes, judged.file_classes);
  if (student.context().device == Device::meta)
    check_weights(*teacher, weights.files, weights.options);
  else
    load_weights(*teacher, weights.files, weights.options);
  if (joined && !joined->is_same(classes) && student.context().device != Device::meta)
    order_classes(joined->numbers, *teacher);
  for (Parameter* const parameter : teacher->parameters()) parameter->set_trainable(false);
  return {std::move(teacher), folder.images};
}

/// Images [N, H, W, C] that were normalised as `from` says, as `to` says; the same tensor where both say the same or
/// one says nothing. For a model on `device`.
Tensor renormalised(const Tensor& images, const ImagePreparation& from, const ImagePreparation& to, Device device) {
  const auto channels = static_cast<std::size_t>(images.shape().back());
  const auto known = [&](const ImagePreparation& one) {
    return one.mean.size() == channels && one.std.size() == channels;
  };
  if (!known(from) || !known(to) || (from.mean == to.mean && from.std == to.std)) return images;
  Tensor out = Tensor::empty(images.shape(), images.dtype(), images.device(), Purpose::data);
  if (device == Device::meta || images.device() == Device::meta) return out;
  with_float_type(images.dtype(), [&]<class T>(Type<T>) {
    const T* const in = images.data<const T>();
    T* const result = out.data<T>();
    for (std::int64_t i = 0; i < images.count(); ++i) {
      const auto c = static_cast<std::size_t>(i) % channels;
      const double pixel = static_cast<double>(to_compute(in[i])) * from.std[c] + from.mean[c];
      result[i] = static_cast<T>(static_cast<Compute<T>>((pixel - to.mean[c]) / to.std[c]));
    }
  });
  return out;
}

/// `image_scale` of images u8 for a model whose images are prepared as `to`, where that says it; otherwise `from`.
Variable scale_for(const ImagePreparation& to, const Variable& from) {
  const auto channels = static_cast<std::size_t>(from.shape().back());
  if (to.mean.size() != channels || to.std.size() != channels) return from;
  std::vector<float> table;  // [2 C]
  for (const double deviation : to.std) table.push_back(static_cast<float>(1 / (255 * deviation)));
  for (std::size_t c = 0; c < channels; ++c) table.push_back(static_cast<float>(-to.mean[c] / to.std[c]));
  return Variable(image_scale(table, from.shape().front()));
}

struct DistillationOptions {
  std::string teacher, teacher_from;
  std::vector<std::string> teacher_weights;
  bool hard = false;
  double temperature = 1;
  bool per_class = true;
  double base_weight = 0.5, distill_weight = 0.5, label_smoothing = 0;

  static Fields fields() {
    using D = DistillationOptions;
    return {
        field("teacher", &D::teacher, "the teacher's model; empty: as its folder says"),
        field("teacher_from", &D::teacher_from, is_path, "the teacher's weights: a folder or a .safetensors file"),
        field("teacher_weights", &D::teacher_weights,
              "types of the teacher's weights, as freeze.weights; empty: as stored"),
        field("hard", &D::hard, "learn the teacher's best class, not its probabilities"),
        field("temperature", &D::temperature, at_least(1e-6), "temperature of soft distillation; timm's default is 4"),
        field("per_class", &D::per_class, "average the soft loss over classes, too, as DeiT does; false: as timm"),
        field("base_weight", &D::base_weight, "weight of the cross entropy with the labels (DeiT's 1 − α)"),
        field("distill_weight", &D::distill_weight, "weight of the distance to the teacher (DeiT's α)"),
        field("label_smoothing", &D::label_smoothing, up_to(1), label_smoothing_help)};
  }
};

/// loss = base_weight · CE(class logits, labels) + distill_weight · D(distillation logits, teacher's logits).
///
/// hard: D = CE(logits, the teacher's best class). soft: D = τ² · KL(softmax(teacher / τ) ‖ softmax(logits / τ)), the
/// mean over the batch (timm's task) or, with `per_class`, over all elements of the logits (DeiT's own code).
/// In evaluation the loss is the cross entropy of `logits`.
class Distillation final : public Task {
 public:
  Distillation(const DistillationOptions& options, const Model& model)
      : Task(accuracy_metrics(model)),
        teacher_name_(options.teacher),
        teacher_from_(options.teacher_from),
        teacher_types_(options.teacher_weights),
        classes_(model.num_classes()),
        hard_(options.hard),
        per_class_(options.per_class),
        temperature_(options.temperature),
        base_weight_(options.base_weight),
        distill_weight_(options.distill_weight),
        label_smoothing_(options.label_smoothing) {
    if (teacher_from_.empty())
      reject("task distillation: `teacher_from` names the folder or file with the teacher's weights");
    if (!teacher_name_.empty()) describe_model(teacher_name_, {});  // refuses an unknown name
    check_weight_rules({teacher_types_, "task.teacher_weights"});
  }

  SampleFields targets() const override { return {class_field(classes_)}; }

  void see(const DatasetInfo& data) override {
    Task::see(data);
    student_images_ = {.mean = as_written(data.mean), .std = as_written(data.deviation)};
  }

  std::vector<std::string> notes() const override {
    const ModelFolder teacher = describe_teacher(teacher_name_, teacher_from_);
    const std::optional<JoinedClasses> joined = joined_classes(teacher, classes_, data().classes);
    if (!joined || !joined->by_place) return {};
    return {fmt::format("the teacher's classes are joined by number, since names are on one side alone: {}",
                        both_lists(teacher.labels, data().classes))};
  }

  Batch prepared(Batch batch) const override {
    const Tensor& images = batch["images"];
    if (!teacher_.model || images.dtype() == DType::u8) return batch;  // a kernel normalises pixels
    const Tensor taught = renormalised(images, student_images_, teacher_.images, images.device());
    if (taught.raw() != images.raw()) batch.set("teacher_images", taught);
    return batch;
  }
  bool is_read_by_kernels(std::string_view field) const override {
    return field == "labels" || field == "teacher_images" || is_copied_by_models(field);
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    Variable labels = batch.take("labels");
    TaskResult result;
    if (mode == TaskMode::evaluate) {
      Variable logits = model.forward(std::move(batch)).take("logits");
      labels = class_targets(logits, labels);
      show(logits.tensor(), labels.tensor());
      result.sums = accuracy_sums(logits.tensor(), labels.tensor(), metrics().size());
      result.loss = cross_entropy(std::move(logits), std::move(labels));
      return result;
    }
    const Tensor taught = teacher_logits(batch, model);  // [N, C]
    Outputs outputs = model.forward(std::move(batch));
    Variable logits = outputs.take("logits");
    labels = class_targets(logits, labels);
    result.sums = accuracy_sums(logits.tensor(), labels.tensor(), metrics().size());
    // A model with one head follows the labels and the teacher with it.
    Variable by_label = outputs.contains("logits_class") ? outputs.take("logits_class") : logits;
    Variable by_teacher = outputs.contains("logits_distilled") ? outputs.take("logits_distilled") : std::move(logits);
    Variable base = cross_entropy(std::move(by_label), std::move(labels), label_smoothing_);
    result.loss = base_weight_ * std::move(base) + distill_weight_ * distance(std::move(by_teacher), taught);
    return result;
  }

  std::vector<Prediction> predict(Model& model, Inputs batch) const override {
    return class_predictions(model.forward(std::move(batch)).take("logits").tensor(), data().classes);
  }

  std::unique_ptr<Figures> figures() const override { return std::make_unique<ClassFigures>(data().classes); }

  void prepare(const Model& student) const override {
    if (!teacher_.model) teacher_ = make_teacher(teacher_name_, teacher_from_, teacher_types_, student, data().classes);
  }

 private:
  /// The teacher's logits for the batch as the student sees it.
  Tensor teacher_logits(Inputs& batch, const Model& student) const {
    const NoGrad no_grad;
    prepare(student);
    Inputs inputs;
    const Variable& images = batch.at("images");
    if (images.dtype() == DType::u8) {
      inputs.set("images", images);
      inputs.set("image_scale", scale_for(teacher_.images, batch.at("image_scale")));
      if (batch.contains("image_mixes")) inputs.set("image_mixes", batch.at("image_mixes"));
      return teacher_.model->forward(std::move(inputs)).take("logits").tensor();
    }
    const Tensor taught = batch.contains("teacher_images") ? batch.take("teacher_images").tensor()
                                                           : renormalised(images.tensor(), student_images_,
                                                                          teacher_.images, student.context().device);
    inputs.set("images", Variable(taught, false, "images"));
    return teacher_.model->forward(std::move(inputs)).take("logits").tensor();
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
  std::vector<std::string> teacher_types_;
  mutable Teacher teacher_;          // from the first step on: an evaluation needs none
  ImagePreparation student_images_;  // as the batches come; empty: not said
  std::int64_t classes_;
  bool hard_, per_class_;
  double temperature_, base_weight_, distill_weight_, label_smoothing_;
};

const RegisterTask distillation("distillation", {.options = DistillationOptions{},
                                                 .make = [](const Options& options, const Model& model) {
                                                   return std::make_unique<Distillation>(
                                                       options.as<DistillationOptions>(), model);
                                                 }});

}  // namespace
}  // namespace lacuna
