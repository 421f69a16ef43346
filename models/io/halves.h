// Weights in bf16 for others to read, and beside them the half of the bits that makes them exact.
#pragma once

#include "nn/module.h"

#include <filesystem>

namespace lacuna {

/// Beside `model.safetensors`: the low halves of weights that are f32.
inline constexpr std::string_view low_halves_file = "low_halves.safetensors";

/// The key in the metadata of both files whose value, a hash of the exact weights, says that they belong together.
inline constexpr const char* exact_hash_key = "lacuna_exact_weights";

/// Writes the state in two files of `folder`: `model.safetensors`, where f32 is rounded to bf16 with ties away from
/// zero, and low_halves_file, the low 16 bits of each f32, as u8 [count, 2] under the same name. Both halves give every
/// value back: rounding went up where the top one of the low bits is set. Weights in few bits stay as they are.
void save_halves(const Module& model, const std::filesystem::path& folder);
/// The f32 values of which `high` (bf16) and `low` (u8 [count, 2]) are the halves.
Tensor join_halves(const Tensor& high, const Tensor& low);

}  // namespace lacuna
