#include "apps/report/sample_sheet.h"

#include "apps/config/resolve.h"
#include "apps/output/drawing.h"
#include "apps/output/picture.h"
#include "apps/report/text_sheet.h"
#include "core/error.h"
#include "data/encoded_images.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace lacuna::apps {
namespace {

constexpr std::int64_t most_images = 32;  // of a batch
constexpr std::int64_t epochs = 2;

/// The label of a sample: a class, several with their shares, or a number.
std::string label_of(const Tensor& labels, std::int64_t row, const std::vector<std::string>& classes) {
  const auto name = [&](std::size_t i) { return i < classes.size() ? classes[i] : std::to_string(i); };
  const std::vector<double> values = labels.to_vector();
  if (labels.shape().rank() == 1) {
    const double value = values[static_cast<std::size_t>(row)];
    return labels.dtype() == DType::i64 ? name(static_cast<std::size_t>(value)) : fmt::format("{:.4g}", value);
  }
  const auto count = static_cast<std::size_t>(labels.shape().back());
  const auto share = [&](std::size_t i) { return values[static_cast<std::size_t>(row) * count + i]; };
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, share);
  std::string text;
  constexpr std::size_t most = 3;
  for (std::size_t i = 0; i < std::min(most, count) && share(order[i]) > 0.01; ++i)
    text += fmt::format("{}{} {:.2f}", text.empty() ? "" : ", ", name(order[i]), share(order[i]));
  return text;
}

/// The picture u8 [H, W, 3] of row `row` under the classes of its pixels, of `masks` [N, H, W].
Tensor covered(const Tensor& picture, const Tensor& masks, std::int64_t row, const SampleField& field,
               const std::vector<std::string>& classes) {
  const Shape& shape = masks.shape();
  return with_classes(picture, masks.leading(row, row + 1).reshape({shape[1], shape[2]}), classes,
                      static_cast<std::int64_t>(field.padding));
}

std::string pictured(const Tensor& picture) {
  return fmt::format("<img alt=\"\" src=\"{}\">", picture_address(picture));
}

/// Images of the first batch of each of the first epochs.
std::string image_samples(const Experiment& experiment, const DatasetPtr& dataset) {
  if (image_channels(dataset->info().fields) != 3)
    reject("--data: expected a data set with colour images or tokens, got {}", experiment.data.name);
  const SampleField* const boxes = find_field(dataset->info().fields, FieldKind::boxes);
  const SampleField* const target = find_target(dataset->info().fields);
  if (target == nullptr && boxes == nullptr)
    reject("--data: expected a data set with labels, got {} with {}", experiment.data.name,
           to_string(dataset->info().fields));
  const std::vector<std::string>& classes = dataset->info().classes;
  const Batches batches = batches_of(experiment, dataset, Split::train);
  std::string page;
  Sample sample;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const Batch batch = batches.read(epoch, 0, batches.allocate(), sample);
    const Tensor& images = batch[find_images(batches.info().fields)->name];
    page += fmt::format("<h2>Epoch {}, first batch: {} images of {}×{} pixels</h2>\n<div>\n", epoch + 1, batch.samples,
                        images.shape()[1], images.shape()[2]);
    for (std::int64_t row = 0; row < std::min(most_images, batch.samples); ++row) {
      const Tensor picture = picture_of(images, row, experiment.data.images.mean, experiment.data.images.deviation);
      page += "<figure>" + pictured(picture);
      if (boxes != nullptr)
        page += pictured(with_boxes(picture, true_boxes(batch, row, classes), classes));
      else if (target->kind == FieldKind::mask)
        page += pictured(covered(picture, batch[target->name], row, *target, classes));
      else
        page += fmt::format("<figcaption>{}</figcaption>", for_html(label_of(batch[target->name], row, classes)));
      page += "</figure>\n";
    }
    page += "</div>\n";
  }
  return page;
}

}  // namespace

std::string sample_sheet(Experiment experiment) {
  experiment.train.device = "cpu";  // pixels as numbers
  const DatasetPtr dataset = open_dataset(experiment.data.name, dataset_options(experiment, Split::train));
  const bool is_text = find_field(dataset->info().fields, FieldKind::tokens) != nullptr;
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Training "
             "samples</title>\n<style>\n"
             "body {{ font: 15px/1.5 system-ui, sans-serif; margin: 24px; background: #fbfaf8; color: #1d1c1a; }}\n"
             "div {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(140px, 1fr)); gap: 12px; }}\n"
             "figure {{ margin: 0; }} img {{ width: 100%; image-rendering: pixelated; border-radius: 4px; }}\n"
             "figcaption {{ font-size: 12px; overflow-wrap: anywhere; }}\n"
             ".tokens, pre {{ white-space: pre-wrap; overflow-wrap: anywhere; }}\n"
             ".tokens span {{ border: 1px solid #d8d5cf; }} .tokens .learned {{ background: #ffe08a; }}\n"
             "</style></head><body>\n<h1>Training samples of {}</h1>\n<p>{}</p>\n",
             for_html(experiment.data.name), for_html(dataset->info().description)) +
         (is_text ? text_samples(experiment, *dataset) : image_samples(experiment, dataset)) + "</body></html>\n";
}

}  // namespace lacuna::apps
