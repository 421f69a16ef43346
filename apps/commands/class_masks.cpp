#include "apps/commands/class_masks.h"

#include "apps/commands/shown_image.h"
#include "apps/output/drawing.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "data/images/image_reader.h"
#include "data/segmentation/palette.h"
#include "models/prediction.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;

Showing usual_showing(const std::string& crop_mode) {
  return crop_mode == "center" ? Showing::windows : whole_showing(crop_mode);
}

/// Copies a window [height, width, C] of pixels f32 [H, W, C].
void copy_window(const Tensor& pixels, const Window& window, const Tensor& out) {
  const std::int64_t channels = pixels.shape()[2], width = out.shape()[1];
  for (std::int64_t y = 0; y < out.shape()[0]; ++y)
    std::copy_n(pixels.data<const float>() + ((window.top + y) * pixels.shape()[1] + window.left) * channels,
                width * channels, out.data<float>() + y * width * channels);
}

/// The logits f32 [windows, h, w, C] of the parts of pixels f32 [H, W, C].
Tensor logits_of(Model& model, const Tensor& pixels, const Shown& shown) {
  constexpr std::int64_t most = 4;  // at once
  const std::int64_t windows = std::ssize(shown.windows), channels = pixels.shape()[2];
  const NoGrad no_grad;
  Tensor all;
  for (std::int64_t first = 0; first < windows; first += most) {
    const std::int64_t count = std::min(most, windows - first);
    Batch batch;
    batch.samples = count;
    Tensor images =
        Tensor::empty({count, shown.model.height, shown.model.width, channels}, DType::f32, Device::cpu, Purpose::data);
    for (std::int64_t i = 0; i < count; ++i)
      copy_window(pixels, shown.windows[static_cast<std::size_t>(first + i)],
                  images.leading(i, i + 1).reshape({shown.model.height, shown.model.width, channels}));
    batch.set(model.inputs().front().name, std::move(images));
    const Tensor logits =
        on_device(model.forward(std::move(batch)).take("logits").tensor(), Device::cpu).to(DType::f32);
    const Shape& shape = logits.shape();
    expect(shape.rank() == 4, "expected logits [N, h, w, C], got {}", shape);
    if (!all.defined())
      all = Tensor::empty({windows, shape[1], shape[2], shape[3]}, DType::f32, Device::cpu, Purpose::data);
    all.leading(first, first + count).copy_from(logits);
  }
  return all;
}

}  // namespace

Showing whole_showing(const std::string& crop_mode) { return crop_mode == "squash" ? Showing::squash : Showing::fit; }

ClassMasks::ClassMasks(const OpenedModel& model, ClassMaskOptions options)
    : model_(model), options_(std::move(options)), images_(model.image_options()) {
  if (!options_.folder.empty()) fs::create_directories(options_.folder);
}

fs::path ClassMasks::path_of(const std::string& name, std::string_view ending) {
  fs::path path = options_.folder / (fs::path(name).stem().native() + std::string(ending));
  if (!written_.insert(path).second) reject("{}: another image has the mask {}", name, path.native());
  check_no_input(path, options_.inputs);
  check_no_input(path, {name});
  return path;
}

Tensor classes_of(Model& model, const TransformOptions& images, const std::string& bytes,
                  std::optional<Showing> showing) {
  const SampleField& input = model.inputs().front();
  const Shown shown(size_of_image(bytes, images), {input.shape[0], input.shape[1]},
                    showing.value_or(usual_showing(images.crop_mode)));
  const Tensor pixels = shown_pixels(bytes, images, shown.resized,
                                     shown.windows.size() == 1 ? shown.model : shown.resized, input.shape[2]);
  const Tensor logits = logits_of(model, pixels, shown);
  const std::span values(logits.data<const float>(), static_cast<std::size_t>(logits.count()));
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
    fail("the model's output is not finite");
  return class_map(shown, logits);
}

nlohmann::ordered_json ClassMasks::predict(const std::string& name, const std::string& bytes) {
  const std::span file(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  const Tensor classes = classes_of(*model_.model, images_, bytes, options_.showing);
  nlohmann::ordered_json found;
  if (!options_.folder.empty()) {
    const fs::path mask = path_of(name, ".png");
    write_classes(mask, classes, options_.add_one ? 1 : 0);
    found["mask"] = mask.native();
    if (options_.overlays) {
      const fs::path path = path_of(name, "_overlay.png");
      write_png(path, with_classes(decode_image(file, decoding_of(images_)), classes, model_.folder.labels));
      found["overlay"] = path.native();
    }
  }
  found["classes"] = nlohmann::ordered_json::array();
  found["pixels"] = nlohmann::ordered_json::array();
  for (const ClassShare& one : class_shares(classes)) {
    if (options_.most > 0 && std::ssize(found["classes"]) == options_.most) break;
    found["classes"].push_back(class_name(model_.folder.labels, one.number));
    found["pixels"].push_back(one.share);
  }
  return found;
}

std::string shares_in_words(const nlohmann::ordered_json& found, std::int64_t most) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < std::min(static_cast<std::size_t>(most), found["classes"].size()); ++i)
    words.push_back(fmt::format("{} {:.4f}", found["classes"][i].get<std::string>(), found["pixels"][i].get<double>()));
  const std::string mask = found.contains("mask") ? "; " + found["mask"].get<std::string>() : "";
  return fmt::format("{}{}", fmt::join(words, ", "), mask);
}

void add_masks(nlohmann::ordered_json& sample, Model& model, const Batch& batch, const SampleField& mask,
               const std::vector<std::string>& classes, const Reduced& picture) {
  const std::int64_t height = batch[mask.name].shape()[1], width = batch[mask.name].shape()[2], by = picture.by;
  const ImageSize size(picture.picture.shape()[0], picture.picture.shape()[1]);
  const std::vector<double> all = batch[mask.name].to_vector();
  Tensor labels = Tensor::empty({size.height, size.width}, DType::i64, Device::cpu, Purpose::data);
  // The middle one of those that a pixel stands for; a side below `by` has fewer.
  const auto middle = [&](std::int64_t at, std::int64_t side) { return std::min(at * by + by / 2, side - 1); };
  for (std::int64_t y = 0; y < size.height; ++y)
    for (std::int64_t x = 0; x < size.width; ++x)
      labels.data<std::int64_t>()[y * size.width + x] =
          static_cast<std::int64_t>(all[static_cast<std::size_t>(middle(y, height) * width + middle(x, width))]);
  sample["mask"] =
      picture_address(with_classes(picture.picture, labels, classes, static_cast<std::int64_t>(mask.padding)));
  const std::string& name = model.inputs().front().name;
  Batch images;
  images.samples = 1;
  images.set(name, batch[name]);
  const NoGrad no_grad;
  const Tensor logits = on_device(model.forward(std::move(images)).take("logits").tensor(), Device::cpu).to(DType::f32);
  sample["prediction"] =
      picture_address(with_classes(picture.picture, class_map(Shown(size, size, Showing::squash), logits), classes));
}

}  // namespace lacuna::apps
