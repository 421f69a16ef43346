// Detection: the sum of a detector's losses, and COCO's average precision of what it finds.
#include "data/detection/boxes.h"
#include "models/detection/detector.h"
#include "models/prediction.h"
#include "models/tasks/detection/detection_figures.h"
#include "models/tasks/detection/predicted_boxes.h"
#include "nn/functional.h"

namespace lacuna {
namespace {

class Detection final : public Task {
 public:
  explicit Detection(const Model& model) : Task(detection_metrics()), classes_(model.num_classes()) {
    if (dynamic_cast<const Detector*>(&model) == nullptr)
      reject("task detection: expected a detector, such as retinanet_resnet50_fpn");
  }

  SampleFields targets() const override { return box_fields(classes_, most_boxes); }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    const Device device = model.context().device;
    const Inputs truth = batch;
    Outputs outputs = model.forward(std::move(batch));
    TaskResult result;
    for (const auto& [name, output] : outputs)
      if (name.starts_with(Detector::loss_prefix))
        result.loss = result.loss.defined() ? std::move(result.loss) + output : output;
    if (mode == TaskMode::train || device == Device::meta) {
      result.sums.assign(metrics().size(), Tensor::empty({0}, DType::f64, device));
      return result;
    }
    const Tensor numbers = numbers_of(compared(outputs, truth));
    result.sums.assign(metrics().size(), numbers);
    show(numbers, numbers);
    return result;
  }

  std::vector<Prediction> predict(Model& model, Inputs batch) const override {
    std::vector<Prediction> predictions;
    for (const std::vector<FoundBox>& found : found_in(model.forward(std::move(batch)))) {
      PredictedBoxes boxes;
      for (const FoundBox& one : found)
        boxes.add(class_name(data().classes, one.category), one.score,
                  {one.box[0], one.box[1], one.box[0] + one.box[2], one.box[1] + one.box[3]});
      predictions.push_back(boxes.prediction());
    }
    return predictions;
  }

  std::unique_ptr<Figures> figures() const override { return std::make_unique<DetectionTable>(data().classes); }

 private:
  static constexpr std::int64_t most_boxes = 1 << 16;  // of an image

  static CornerBox sides_of(const float* corners) {
    return {corners[0], corners[1], static_cast<double>(corners[2]) - static_cast<double>(corners[0]),
            static_cast<double>(corners[3]) - static_cast<double>(corners[1])};
  }

  /// The boxes of each image. The class that is none is left out.
  static std::vector<std::vector<FoundBox>> found_in(const Outputs& outputs) {
    const Tensor boxes = outputs.at("boxes").tensor().to(DType::f32),
                 scores = outputs.at("scores").tensor().to(DType::f32), labels = outputs.at("labels").tensor(),
                 offsets = outputs.at("offsets").tensor();
    std::vector<std::vector<FoundBox>> all(static_cast<std::size_t>(offsets.count() - 1));
    for (std::size_t n = 0; n < all.size(); ++n)
      for (std::int64_t k = offsets.data<const std::int64_t>()[n]; k < offsets.data<const std::int64_t>()[n + 1]; ++k)
        if (const std::int64_t label = labels.data<const std::int64_t>()[k]; label >= 0)
          all[n].push_back(
              {label, sides_of(boxes.data<const float>() + 4 * k), static_cast<double>(scores.data<const float>()[k])});
    return all;
  }

  static std::vector<ComparedImage> compared(const Outputs& outputs, const Inputs& truth) {
    const Tensor boxes = truth.at("boxes").tensor(), labels = truth.at("box_labels").tensor(),
                 fills = truth.at("box_fills").tensor(), uncounted = truth.at("box_uncounted").tensor(),
                 offsets = truth.at("box_offsets").tensor();
    std::vector<ComparedImage> images;
    for (std::vector<FoundBox>& found : found_in(outputs)) {
      const auto n = std::ssize(images);
      ComparedImage& image = images.emplace_back(ComparedImage{.found = std::move(found)});
      for (std::int64_t k = offsets.data<const std::int64_t>()[n]; k < offsets.data<const std::int64_t>()[n + 1]; ++k) {
        const auto how = static_cast<Uncounted>(uncounted.data<const std::int64_t>()[k]);
        const CornerBox box = sides_of(boxes.data<const float>() + 4 * k);
        image.truth.push_back({.category = labels.data<const std::int64_t>()[k],
                               .box = box,
                               .area = static_cast<double>(fills.data<const float>()[k]) * box[2] * box[3],
                               .crowd = how == Uncounted::crowd,
                               .ignored = how == Uncounted::difficult});
      }
    }
    return images;
  }

  std::int64_t classes_;
};

const RegisterTask detection("detection", {.options = NoOptions{},
                                           .make = [](const Options&, const Model& model) -> std::unique_ptr<Task> {
                                             return std::make_unique<Detection>(model);
                                           },
                                           .problem = "object_detection",
                                           .crop_mode = "border"});  // a crop would cut objects off

}  // namespace
}  // namespace lacuna
