#include "apps/commands/reference_detection.h"

#include "apps/commands/reference_batch.h"
#include "apps/commands/reference_segmentation.h"
#include "data/detection/boxes.h"
#include "models/registry.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace lacuna {
namespace {

using nlohmann::json;

/// Lists of lists as one list.
std::vector<std::int64_t> flat(const json& lists) {
  std::vector<std::int64_t> all;
  for (const json& list : lists)
    for (const json& value : list) all.push_back(value.get<std::int64_t>());
  return all;
}

/// Lists of words and numbers as one text, with ; between them.
std::string lines_of(const json& lists) {
  std::string all;
  for (const json& list : lists) {
    if (!all.empty()) all += "; ";
    for (const json& value : list) all += (value.is_string() ? value.get<std::string>() : value.dump()) + " ";
  }
  return all;
}

Tensor shifted(const Tensor& labels, std::int64_t by) {
  Tensor out = labels.clone();
  for (std::int64_t i = 0; i < out.count(); ++i) out.data<std::int64_t>()[i] += by;
  return out;
}

/// [N, ?, ...] tensors one behind another on axis 1.
Tensor joined(const std::vector<Tensor>& parts) {
  const Shape& first = parts.front().shape();
  const std::int64_t samples = first[0], width = first.back();
  std::vector<double> all;
  std::int64_t rows = 0;
  for (const Tensor& part : parts) rows += part.shape()[1];
  for (std::int64_t n = 0; n < samples; ++n)
    for (const Tensor& part : parts) {
      const std::vector<double> own = part.leading(n, n + 1).to_vector();
      all.insert(all.end(), own.begin(), own.end());
    }
  return Tensor::from(std::span<const double>(all), {samples, rows, width}, parts.front().dtype());
}

/// [N, h, w, C] as torchvision has it: [N, C, h, w].
Tensor channels_first(const Tensor& map) {
  const Shape& shape = map.shape();
  const std::int64_t pixels = shape[1] * shape[2], channels = shape[3];
  const std::vector<double> values = map.to_vector();
  std::vector<double> planes;
  for (std::int64_t n = 0; n < shape[0]; ++n)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < pixels; ++p)
        planes.push_back(values[static_cast<std::size_t>((n * pixels + p) * channels + c)]);
  return Tensor::from(std::span<const double>(planes), {shape[0], channels, shape[1], shape[2]}, map.dtype());
}

/// Our keys for one of a description.
std::vector<std::string> keys_of(const std::string& key) {
  if (key == "rpn_pre_nms") return {"rpn_pre_nms_top_n_train", "topk_candidates"};
  if (key == "rpn_post_nms") return {"rpn_post_nms_top_n_train", "rpn_post_nms_top_n_test"};
  return {key};
}

}  // namespace

bool is_reference_detector(const json& description) {
  const std::string family = description.value("family", "");
  return model_families().contains(family) && model_families().get(family).task == "detection";
}

std::vector<HyperParameter> detector_parameters(const json& description) {
  std::vector<HyperParameter> values;
  for (const auto& [key, value] : description.items()) {
    if (key == "family" || key == "batch") continue;
    if (key == "backbone") {
      json own = value;
      values.push_back({"frozen_norm", own.value("norm", "") == "frozen"});
      own.erase("norm");
      values.push_back({key, reference_backbone(own)});
    } else if (key == "num_classes") {
      values.push_back({key, value.get<std::int64_t>() - 1});
    } else if (key == "blocks") {
      values.push_back({key, lines_of(value)});
    } else if (value.is_array() && !value.empty() && value[0].is_array()) {
      values.push_back({key, flat(value)});
    } else {
      for (const std::string& own : keys_of(key)) values.push_back({own, reference_value(key, value)});
    }
  }
  // Draws of another library cannot be repeated: a file holds results of all that it would draw from.
  if (description.contains("rpn_pre_nms"))
    for (const char* const key : {"rpn_batch_size_per_image", "box_batch_size_per_image"})
      values.push_back({key, std::int64_t{1} << 20});
  return values;
}

Batch load_reference_boxes(const SafetensorsFile& file, const Model& model) {
  for (const char* const name : {"input/image", "target/boxes", "target/labels", "target/offsets"})
    if (!file.contains(name)) reject("{}: expected `{}`", file.path().string(), name);
  const Tensor images = channels_last(file.load("input/image")), boxes = file.load("target/boxes").to(DType::f32),
               labels = shifted(file.load("target/labels"), -1), offsets = file.load("target/offsets");
  const std::int64_t count = labels.count(), samples = images.shape()[0];
  if (!(boxes.shape() == Shape{count, 4}) || offsets.count() != samples + 1)
    reject("{}: expected `target/boxes` [{}, 4] and `target/offsets` [{}], got {} and {}", file.path().string(), count,
           samples + 1, boxes.shape(), offsets.shape());
  const SampleFields fields = box_fields(0, count);
  const std::string offsets_name = lengths_of(fields.front());
  const std::array tensors{boxes, labels, Tensor::zeros({count}, DType::f32, Device::cpu, Purpose::data),
                           Tensor::zeros({count}, DType::i64, Device::cpu, Purpose::data)};
  Batch batch;
  batch.set(find_field(model.inputs(), FieldKind::pixels)->name, images);
  batch.set(offsets_name, offsets);
  for (std::size_t i = 0; i < tensors.size(); ++i) batch.set_packed(fields[i].name, tensors[i], offsets_name);
  batch.samples = samples;
  return batch;
}

NamedTensors detector_outputs(const NamedTensors& seen, const SafetensorsFile& file, bool evaluates) {
  NamedTensors all;
  const std::string prefix = evaluates ? "eval/" : "output/";
  for (const auto& [name, tensor] : seen) {
    const std::string stem = name.substr(0, name.rfind('.'));
    if (stem == name || file.contains(prefix + name)) {
      const bool are_labels = evaluates && tensor.dtype() == DType::i64 && name != "offsets";
      all.set(name, are_labels ? shifted(tensor, 1) : tensor.shape().rank() == 4 ? channels_first(tensor) : tensor);
    } else if (name.ends_with(".0") && file.contains(prefix + stem)) {
      std::vector<Tensor> parts;
      for (std::size_t i = 0; seen.contains(fmt::format("{}.{}", stem, i)); ++i)
        parts.push_back(seen.at(fmt::format("{}.{}", stem, i)));
      all.set(stem, joined(parts));
    }
  }
  return all;
}

}  // namespace lacuna
