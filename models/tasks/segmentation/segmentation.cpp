// Semantic segmentation: cross entropy, Dice or both of the output `logits` [N, h, w, C] with `mask` [N, H, W], to
// whose size it is resized, and in training of `aux_logits`, where the model gives any.
#include "autograd/apply.h"
#include "data/segmentation/mask.h"
#include "models/image_model.h"
#include "models/prediction.h"
#include "models/tasks/class_targets.h"
#include "models/tasks/segmentation/segmentation_figures.h"
#include "nn/functional.h"
#include "ops/losses/pixel_loss.h"
#include "ops/losses/pixel_loss_kernels.h"

namespace lacuna {
namespace {

struct SegmentationOptions {
  double cross_entropy = 1, dice = 0, aux_weight = 0.4, label_smoothing = 0;
  std::string class_weights{};

  static Fields fields() {
    using S = SegmentationOptions;
    return {field("cross_entropy", &S::cross_entropy, at_least(0), "weight of the cross entropy of pixels"),
            field("dice", &S::dice, at_least(0), "weight of the Dice loss in training"),
            field("aux_weight", &S::aux_weight, at_least(0), "weight of the auxiliary head's loss"),
            field("label_smoothing", &S::label_smoothing, up_to(1), label_smoothing_help),
            field("class_weights", &S::class_weights,
                  "a weight per class for the training loss, as `1, 2.5`; torch's `weight` of the cross entropy")};
  }
};

class Segmentation final : public Task {
 public:
  Segmentation(const SegmentationOptions& options, const Model& model)
      : Task(segmentation_metrics(model.num_classes())), options_(options), classes_(model.num_classes()) {
    const auto* const images = dynamic_cast<const ImageModel*>(&model);
    if (images == nullptr) reject("task segmentation: expected a model of images");
    mask_ = mask_field(classes_, images->image_size().height, images->image_size().width);
    if (options.cross_entropy == 0 && options.dice == 0)
      reject("task.cross_entropy and task.dice: expected one of them above 0");
    if (options.aux_weight == 0 && model.heads().size() > 1)
      reject(
          "task.aux_weight: expected a weight above 0 of the auxiliary head's loss; model.aux=false has no such head");
    if (options.class_weights == "balanced")
      reject("task.class_weights: expected a number per class with commas between them, got balanced");
    if (const ClassWeights weights(options.class_weights, classes_); weights.any())
      weights_ = weights.values(Device::cpu);
  }

  SampleFields targets() const override { return {mask_}; }

  /// The weights of the pixels that count.
  double weight(const Batch& batch, TaskMode mode) const override {
    const Tensor mask = batch[mask_.name];
    if (mask.device() == Device::meta) return static_cast<double>(mask.count());
    const auto sum_of = [&](const auto* labels) {
      double sum = 0;
      for (std::int64_t i = 0; i < mask.count(); ++i)
        if (const auto label = static_cast<std::int64_t>(labels[i]); label != ignored())
          sum += mode == TaskMode::train ? weight_of(label) : 1;
      return sum;
    };
    const Tensor labels = on_device(mask, Device::cpu);
    return labels.dtype() == DType::u8 ? sum_of(labels.data<const std::uint8_t>())
                                       : sum_of(labels.data<const std::int64_t>());
  }

  Batch prepared(Batch batch) const override {
    check_pixel_labels(Device::cpu, batch[mask_.name], ignored(), classes_);
    return batch;
  }
  bool is_read_by_kernels(std::string_view field) const override {
    return field == mask_.name || is_copied_by_models(field);
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    const Tensor mask = batch.take(mask_.name).tensor();
    const Device device = model.context().device;
    Outputs outputs = model.forward(std::move(batch));
    Variable logits = outputs.take("logits");
    expect(logits.shape().rank() == 4 && logits.shape().back() == classes_,
           "task segmentation expects logits [N, h, w, {}], got {}", classes_, logits.shape());
    if (device.kind == DeviceKind::cuda && mask.device() == Device::cpu)
      check_pixel_labels(Device::cpu, mask, ignored(), classes_);
    const Variable labels(on_device(mask, device));
    const bool trains = mode == TaskMode::train;
    const PixelLoss loss = trains ? PixelLoss{.ignored = ignored(),
                                              .cross_entropy = options_.cross_entropy,
                                              .dice = options_.dice,
                                              .label_smoothing = options_.label_smoothing}
                                  : PixelLoss{.ignored = ignored()};
    const Variable weights = trains && !weights_.empty() ? class_weights(logits) : Variable();
    TaskResult result;
    Variable aux = trains && outputs.contains("aux_logits") ? outputs.take("aux_logits") : Variable();
    RecordedOp recorded = record(std::make_shared<const Bound<PixelLoss>>(loss), {std::move(logits), labels, weights});
    result.loss = std::move(recorded.outputs.front());
    if (aux.defined())
      result.loss = std::move(result.loss) + options_.aux_weight * apply(loss, std::move(aux), labels, weights);
    const Tensor predictions = recorded.extra_outputs[PixelLoss::predictions];
    if (device == Device::meta) {
      for (const Metric& metric : metrics()) result.sums.push_back(Tensor::empty({metric.sums}, DType::f64, device));
      return result;
    }
    count_on_host(
        device,
        [this, predictions, mask] {
          Confusion confusion(classes_);
          confusion.add(on_device(predictions, Device::cpu), on_device(mask, Device::cpu), ignored());
          return segmentation_sums(confusion);
        },
        result);
    if (!trains) show(on_device(predictions, Device::cpu), mask);
    return result;
  }

  std::vector<Prediction> predict(Model& model, Inputs batch) const override {
    const Shape images = batch.at("images").shape();
    const Tensor logits = model.forward(std::move(batch)).take("logits").tensor();
    const Tensor predictions = Tensor::empty({images[0], images[1], images[2]},
                                             classes_ <= 256 ? DType::u8 : DType::i32, logits.device(), Purpose::data);
    predict_pixels(logits.device(), logits, predictions);
    const std::vector<double> all = predictions.to_vector();
    std::vector<Prediction> found;
    const std::int64_t pixels = images[1] * images[2];
    for (std::int64_t n = 0; n < images[0]; ++n) {
      std::vector<double> shares(static_cast<std::size_t>(classes_));
      for (std::int64_t i = n * pixels; i < (n + 1) * pixels; ++i)
        shares[static_cast<std::size_t>(all[static_cast<std::size_t>(i)])] += 1 / static_cast<double>(pixels);
      std::vector<std::string> names;
      std::vector<double> of_pixels;
      for (std::int64_t c = 0; c < classes_; ++c)
        if (shares[static_cast<std::size_t>(c)] > 0) {
          names.push_back(class_name(data().classes, c));
          of_pixels.push_back(shares[static_cast<std::size_t>(c)]);
        }
      found.push_back({.values = {{"classes", std::move(names)}, {"pixels", std::move(of_pixels)}}});
    }
    return found;
  }

  std::unique_ptr<Figures> figures() const override {
    return std::make_unique<SegmentationFigures>(classes_, ignored(), data().classes);
  }

 private:
  std::int64_t ignored() const { return static_cast<std::int64_t>(mask_.padding); }
  double weight_of(std::int64_t label) const {
    return weights_.empty() || label < 0 || label >= classes_ ? 1 : weights_[static_cast<std::size_t>(label)];
  }
  Variable class_weights(const Variable& logits) const {
    const DType type = logits.dtype() == DType::f64 ? DType::f64 : DType::f32;
    return Variable(Tensor::from(std::span<const double>(weights_), {classes_}, type, logits.device()));
  }

  SegmentationOptions options_;
  std::int64_t classes_;
  SampleField mask_;
  std::vector<double> weights_;  // [classes], or none where all weigh alike
};

const RegisterTask segmentation("segmentation",
                                {.options = SegmentationOptions{},
                                 .make = [](const Options& options, const Model& model) -> std::unique_ptr<Task> {
                                   return std::make_unique<Segmentation>(options.as<SegmentationOptions>(), model);
                                 },
                                 .problem = "semantic_segmentation",
                                 .crop_mode = "squash"});  // the whole image, as transformers' processors show it

}  // namespace
}  // namespace lacuna
