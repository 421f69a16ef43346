// The readers of the individual formats, for open_image.
#pragma once

#include "data/images/image_reader.h"

#include <cstdint>
#include <memory>
#include <span>

namespace lacuna {

// Each reader expects a file with the signature of its format.
std::unique_ptr<ImageReader> open_jpeg(std::span<const std::uint8_t> file);
std::unique_ptr<ImageReader> open_png(std::span<const std::uint8_t> file);
std::unique_ptr<ImageReader> open_webp(std::span<const std::uint8_t> file);
std::unique_ptr<ImageReader> open_bmp(std::span<const std::uint8_t> file);
std::unique_ptr<ImageReader> open_gif(std::span<const std::uint8_t> file);
std::unique_ptr<ImageReader> open_pnm(std::span<const std::uint8_t> file);
/// Decodes with stb_image, whose pixels differ from Pillow's by a few units; for builds without libjpeg-turbo.
std::unique_ptr<ImageReader> open_jpeg_with_stb(std::span<const std::uint8_t> file);

/// The EXIF orientation of a JPEG or PNG, 1 to 8; 1 if it is missing or invalid.
int exif_orientation(std::span<const std::uint8_t> file);

}  // namespace lacuna
