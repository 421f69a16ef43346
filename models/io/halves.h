// Weights in bf16 for others to read, and beside them the half of the bits that a run needs to go on exactly.
#pragma once

#include "nn/module.h"

#include <filesystem>

namespace lacuna {

/// Writes the state in two files: `weights`, where f32 is rounded to bf16 with ties away from zero, and `low`, the low
/// 16 bits of each f32, as u8 [count, 2] under the same name. Both halves give every value back: rounding went up where
/// the top one of the low bits is set.
void save_halves(const Module& model, const std::filesystem::path& weights, const std::filesystem::path& low);
/// Into a model that was loaded from `weights`, the values that were saved. Refuses a file of another model.
void add_low_halves(const Module& model, const std::filesystem::path& low);

}  // namespace lacuna
