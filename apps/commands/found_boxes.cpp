#include "apps/commands/found_boxes.h"

#include "apps/commands/shown_image.h"
#include "apps/output/drawing.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "data/images/image_reader.h"
#include "models/prediction.h"
#include "models/segmentation/class_map.h"
#include "models/tasks/detection/predicted_boxes.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <span>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;

/// The objects of one image [1, H, W, C] with this score at least.
PredictedBoxes find(Model& model, const Task& task, const Tensor& images, double least_score) {
  Batch batch;
  batch.samples = 1;
  batch.set(model.inputs().front().name, images);
  const NoGrad no_grad;
  model.set_training(false);  // an evaluation leaves it as it was
  return PredictedBoxes::of(task.predict(model, std::move(batch)).front(), least_score);
}

/// The picture with boxes, their labels and scores.
Tensor with_found(const Tensor& picture, const PredictedBoxes& found, const std::vector<std::string>& classes) {
  std::vector<DrawnBox> boxes;
  for (std::size_t k = 0; k < found.boxes.size(); ++k) {
    const std::vector<double>& box = found.boxes[k];
    boxes.push_back({.corners = {box[0], box[1], box[2], box[3]},
                     .name = found.labels[k],
                     .text = fmt::format("{} {:.2f}", found.labels[k], found.scores[k])});
  }
  return with_boxes(picture, boxes, classes);
}

}  // namespace

FoundBoxes::FoundBoxes(const OpenedModel& model, FoundBoxesOptions options)
    : model_(model), task_(model.task()), options_(std::move(options)), images_(model.image_options()) {
  if (!options_.folder.empty()) fs::create_directories(options_.folder);
}

std::pair<nlohmann::ordered_json, std::string> FoundBoxes::predict(const std::string& name, const std::string& bytes) {
  const Shape& input = model_.model->inputs().front().shape;
  const Shown shown(size_of_image(bytes, images_), {input[0], input[1]},
                    images_.crop_mode == "squash" ? Showing::squash : Showing::fit);
  const Tensor pixels = shown_pixels(bytes, images_, shown.resized, shown.model, input[2]);
  PredictedBoxes found =
      find(*model_.model, *task_, pixels.reshape({1, input[0], input[1], input[2]}), options_.least_score);
  for (std::vector<double>& box : found.boxes)
    for (std::size_t i = 0; i < box.size(); ++i) {
      const auto own = static_cast<double>(i % 2 == 0 ? shown.image.width : shown.image.height),
                 resized = static_cast<double>(i % 2 == 0 ? shown.resized.width : shown.resized.height);
      box[i] = std::clamp(box[i] * own / resized, 0.0, own);
    }
  nlohmann::ordered_json json = found.json();
  std::string text = found.text();
  if (!options_.folder.empty()) {
    const fs::path path = options_.folder / (fs::path(name).stem().native() + "_overlay.png");
    if (!written_.insert(path).second) reject("{}: another image has the picture {}", name, path.native());
    check_no_input(path, options_.inputs);
    check_no_input(path, {name});
    const std::span file(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    write_png(path, with_found(decode_image(file, decoding_of(images_)), found, model_.folder.labels));
    json["overlay"] = path.native();
    text += "; " + path.native();
  }
  return {std::move(json), std::move(text)};
}

void add_boxes(nlohmann::ordered_json& sample, Model& model, const Task& task, const Batch& batch,
               const std::vector<std::string>& classes, const Reduced& picture) {
  const std::string& name = model.inputs().front().name;
  constexpr double usual_score = 0.5;
  const auto by = static_cast<double>(picture.by);
  std::vector<DrawnBox> truth = true_boxes(batch, 0, classes);
  for (DrawnBox& box : truth)
    for (double& side : box.corners) side /= by;
  PredictedBoxes found = find(model, task, batch[name], usual_score);
  for (std::vector<double>& box : found.boxes)
    for (double& side : box) side /= by;
  sample["mask"] = picture_address(with_boxes(picture.picture, truth, classes));
  sample["prediction"] = picture_address(with_found(picture.picture, found, classes));
}

}  // namespace lacuna::apps
