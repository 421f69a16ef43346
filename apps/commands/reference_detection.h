// Reference files of detectors, as torchvision has them: their background is class 0.
#pragma once

#include "models/hyper_parameters.h"
#include "models/io/safetensors.h"
#include "models/model.h"

#include <nlohmann/json_fwd.hpp>

#include <vector>

namespace lacuna {

/// Whether metadata `model` describes a family of detectors.
bool is_reference_detector(const nlohmann::json& description);
/// Our hyper-parameters of such a description.
std::vector<HyperParameter> detector_parameters(const nlohmann::json& description);
/// The batch of `input/image` and `target/…`, packed boxes with labels.
Batch load_reference_boxes(const SafetensorsFile& file, const Model& model);
/// The results of a detector, under the file's names, in its shapes and with its labels: the tensors `name.0`, `name.1`, …
/// of maps are one.
NamedTensors detector_outputs(const NamedTensors& seen, const SafetensorsFile& file, bool evaluates);

}  // namespace lacuna
