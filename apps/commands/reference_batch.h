// The batch and the task of a reference file.
#pragma once

#include "models/io/safetensors.h"
#include "models/task.h"

#include <memory>
#include <string>
#include <vector>

namespace lacuna {

/// The metadata `key` as JSON; null if there is none.
nlohmann::json reference_metadata(const SafetensorsFile& file, const std::string& key);
/// A value of it as a hyper-parameter or an option.
Tree reference_value(const std::string& key, const nlohmann::json& value);

/// [N, C, H, W] as [N, H, W, C] f32.
Tensor channels_last(const Tensor& planes);

/// The task of the metadata `task`: its `name` and options. A file without one has the loss of the model's head.
std::unique_ptr<Task> reference_task(const SafetensorsFile& file, const Model& model);

/// The batch of a file: `input/NAME` for each field that the model or the task declares, as batches hold it (batch.h).
/// Packed and padded fields need `input/` and the name of their lengths too. Rejects a file whose names, shapes or
/// types differ, with the declared and the given ones.
///
/// Names by which files from timm and transformers have them stand for fields, too: `input/image` [N, C, H, W] for
/// pixels; `input/ids` and `input/types` for tokens and their types; `input/mask` [N, L] (1 for tokens, 0 behind them)
/// for the offsets of packed fields, which are then [N, L] themselves; `target` for the labels.
Batch load_reference_batch(const SafetensorsFile& file, const Model& model, const Task& task);

}  // namespace lacuna
