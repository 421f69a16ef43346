// The readers of the single formats, for open_image.
#pragma once

#include "data/images/image_reader.h"

#include <cstdint>
#include <memory>
#include <span>

namespace lacuna {

// Each expects a file that begins as its format does.
std::unique_ptr<ImageReader> open_jpeg(std::span<const std::uint8_t> file);
std::unique_ptr<ImageReader> open_png(std::span<const std::uint8_t> file);
std::unique_ptr<ImageReader> open_bmp(std::span<const std::uint8_t> file);
std::unique_ptr<ImageReader> open_gif(std::span<const std::uint8_t> file);
std::unique_ptr<ImageReader> open_pnm(std::span<const std::uint8_t> file);
/// By stb_image, whose pixels differ from Pillow's by a few units; for builds without libjpeg-turbo.
std::unique_ptr<ImageReader> open_jpeg_with_stb(std::span<const std::uint8_t> file);

/// The orientation in a JPEG's or PNG's EXIF block, 1 to 8; 1 where there is none or another value.
int exif_orientation(std::span<const std::uint8_t> file);

}  // namespace lacuna
