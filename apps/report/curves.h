// The curves of a run, read from its metrics.jsonl.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>

namespace lacuna::apps {

/// {"train": C, "val": C}, where C is {"step": [n], "epoch": [n], "time": [n], "values": {KEY: [n]}}. `epoch` is
/// fractional, `time` in seconds since the run began, without pauses. Training has a point per step: loss, metrics,
/// `lr`, `gradient_norm`, `samples_per_second`; validation a point per evaluation, its keys without `val_`. Curves of
/// more than 400 points are means over neighbours. A value that a line lacks is null.
nlohmann::ordered_json curves_of(const std::filesystem::path& run);

/// Figures of saved tensors over training: {"step": [n], "values": {TENSOR: {FIGURE: [n]}}}, null where a line lacks
/// one. Of more than 60 lines some are left out, evenly. Steps is empty where the run has none.
nlohmann::ordered_json tensor_curves_of(const std::filesystem::path& run);

}  // namespace lacuna::apps
