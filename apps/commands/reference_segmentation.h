// Reference files of segmenters: their models' descriptions and the form of their results.
#pragma once

#include "core/schema.h"
#include "core/tensor.h"
#include "models/hyper_parameters.h"

#include <nlohmann/json_fwd.hpp>

#include <vector>

namespace lacuna {

/// Whether a file's description is of a segmenter.
bool is_reference_segmenter(const nlohmann::json& description);
/// The config.json that the description of a model of transformers stands for; null: the file is in our terms.
nlohmann::ordered_json segmenter_config(const nlohmann::json& description);
/// A backbone of a description as a hyper-parameter.
Tree reference_backbone(const nlohmann::json& backbone);
/// Its hyper-parameters, and the options of its task.
std::vector<HyperParameter> segmenter_parameters(const nlohmann::json& description);
OptionValues segmenter_loss(const nlohmann::json& description);

/// Logits [N, h, w, C] as a file has them: [N, C, H, W], resized to its height and width.
Tensor as_planes(const Tensor& logits, const Shape& like);
/// The class [N, H, W] of each pixel of resized logits.
Tensor pixel_classes(const Tensor& logits, const Shape& like);

}  // namespace lacuna
