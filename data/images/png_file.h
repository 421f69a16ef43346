// Images written as PNG.
#pragma once

#include "core/tensor.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace lacuna {

using Rgb = std::array<std::uint8_t, 3>;

/// The bytes of a PNG of an image u8 [H, W, 3].
std::string to_png(const Tensor& image);
/// Writes an image u8 [H, W, 3].
void write_png(const std::filesystem::path& path, const Tensor& image);
/// Writes numbers u8 [H, W] as indices of a palette of up to 256 colours, or i32 [H, W] below 65536 as grey of 16 bits
/// (`palette` is empty).
void write_png(const std::filesystem::path& path, const Tensor& numbers, std::span<const Rgb> palette);

}  // namespace lacuna
