#include "apps/commands/reference_segmentation.h"

#include "apps/commands/reference_batch.h"
#include "models/folders/transformers.h"
#include "models/registry.h"
#include "ops/losses/pixel_loss_kernels.h"
#include "ops/shapes/resize.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace lacuna {
namespace {

using nlohmann::json;

/// Our word for that of another library; the same where there is none.
std::string our_key(const std::string& key) {
  constexpr std::pair<std::string_view, std::string_view> names[] = {
      {"stem", "stem_width"}, {"hidden_sizes", "dims"}, {"num_attention_heads", "num_heads"}};
  const auto found = std::ranges::find(names, key, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(names) ? key : std::string(found->second);
}

Tree backbone_of(const json& description) {
  Tree map = reference_backbone(description["backbone"]);
  // The last of torchvision's three flags that is set decides.
  if (const json dilate = description.value("dilate", json::array()); dilate == json::array({false, true, true}))
    map.entries.push_back({"output_stride", {}, 8});
  return map;
}

}  // namespace

Tree reference_backbone(const json& backbone) {
  Tree map;
  map.kind = Tree::Kind::map;
  map.entries.push_back({"name", {}, backbone.value("family", "resnet")});
  for (const auto& [key, value] : backbone.items())
    if (key != "family" && key != "image_size") map.entries.push_back({our_key(key), {}, reference_value(key, value)});
  return map;
}

bool is_reference_segmenter(const json& description) {
  const std::string family = description.value("family", "");
  return model_families().contains(family) && model_families().get(family).task == "segmentation";
}

nlohmann::ordered_json segmenter_config(const json& description) {
  const std::string family = description["family"];
  if (!transformers_types().contains(family)) return nullptr;
  nlohmann::ordered_json config = nlohmann::ordered_json::parse(description.dump());
  config["model_type"] = family;
  config["num_labels"] = description["num_classes"];
  config["drop_path_rate"] = config["classifier_dropout_prob"] = 0;
  if (description.contains("backbone")) {
    config["backbone_config"] = config["backbone"];
    config["backbone_config"]["model_type"] = description["backbone"]["family"];
    config["backbone_config"]["drop_path_rate"] = 0;
    if (description.contains("aux_channels")) config["auxiliary_channels"] = description["aux_channels"];
  }
  return config;
}

std::vector<HyperParameter> segmenter_parameters(const json& description) {
  constexpr std::array<std::string_view, 5> others{"family", "backbone", "dilate", "loss", "batch"};
  std::vector<HyperParameter> values;
  // Only a classifier's Swin norms no maps.
  if (description.contains("backbone") && description["backbone"].value("family", "") == "swin")
    values.push_back({"map_norm", true});
  if (description.contains("backbone")) values.push_back({"backbone", backbone_of(description)});
  for (const auto& [key, value] : description.items())
    if (std::ranges::find(others, key) == others.end()) values.push_back({key, reference_value(key, value)});
  return values;
}

OptionValues segmenter_loss(const json& description) {
  OptionValues options;
  const json loss = description.value("loss", json::object());
  for (const auto& [key, value] : loss.items())
    if (key != "ignore_index") options.emplace(key, reference_value(key, value));
  return options;
}

Tensor as_planes(const Tensor& logits, const Shape& like) {
  const Shape& from = logits.shape();  // [N, h, w, C]
  const Resize op{.height = from[1], .width = from[2], .out_height = like[2], .out_width = like[3]};
  const Tensor resized = from[1] == like[2] && from[2] == like[3] ? logits : op.forward({{logits}});
  const std::vector<double> values = resized.to_vector();
  const std::int64_t pixels = like[2] * like[3], channels = from[3];
  std::vector<double> planes(values.size());
  for (std::int64_t n = 0; n < from[0]; ++n)
    for (std::int64_t p = 0; p < pixels; ++p)
      for (std::int64_t c = 0; c < channels; ++c)
        planes[static_cast<std::size_t>((n * channels + c) * pixels + p)] =
            values[static_cast<std::size_t>((n * pixels + p) * channels + c)];
  return Tensor::from(std::span<const double>(planes), {from[0], channels, like[2], like[3]}, logits.dtype());
}

Tensor pixel_classes(const Tensor& logits, const Shape& like) {
  const Tensor classes = Tensor::empty(like, DType::i32, Device::cpu, Purpose::data);
  predict_pixels(Device::cpu, logits, classes);
  return classes;
}

}  // namespace lacuna
