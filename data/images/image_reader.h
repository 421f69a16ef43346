// Images of files: their size first, then the rows of a box, so that no more is decoded or held than is needed.
//
// Pixels are those of Pillow's Image.open(file).convert("RGB"): grey is repeated, palettes are looked up, alpha and
// colour profiles are dropped, 16 bits become the upper 8, of grey PNGs the value cut at 255.
#pragma once

#include "core/tensor.h"
#include "data/sample.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace lacuna {

/// A part of an image, in pixels.
struct ImageBox {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

/// The largest image that is decoded, in pixels: Pillow's limit.
inline constexpr std::int64_t most_pixels = 178'956'970;

/// A row of RGB pixels [width, 4], whose fourth bytes mean nothing. 4 bytes after it may be read.
using RowConsumer = std::function<void(const std::uint8_t* row)>;

/// One use: an image is read once.
class ImageReader {
 public:
  virtual ~ImageReader() = default;
  ImageReader(const ImageReader&) = delete;
  ImageReader& operator=(const ImageReader&) = delete;

  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

  /// Makes the image up to `factor` (1, 2, 4 or 8) times smaller before it is read, where that saves time, and returns
  /// by how much. The sides are rounded up.
  virtual std::int64_t shrink(std::int64_t factor);
  /// Gives the rows of `box`, top to bottom. Damaged data is a DamagedSample.
  virtual void read(const ImageBox& box, const RowConsumer& row) = 0;

 protected:
  ImageReader() = default;
  void set_size(std::int64_t height, std::int64_t width);

 private:
  std::int64_t height_ = 0, width_ = 0;
};

struct DecodeOptions {
  bool apply_exif = false;  // turn images as their EXIF orientation says
};

/// Reads the header of a JPEG, PNG, BMP, GIF (its first frame), PGM or PPM file, told apart by its content; `bytes`
/// must outlive the reader. Other formats, damaged headers and images above most_pixels are a DamagedSample.
std::unique_ptr<ImageReader> open_image(std::span<const std::uint8_t> bytes, const DecodeOptions& options = {});

/// The whole image, u8 [height, width, 3].
Tensor decode_image(std::span<const std::uint8_t> bytes, const DecodeOptions& options = {});

/// The library that decodes JPEGs: `libjpeg-turbo`, or `stb_image` where the build had none.
const char* jpeg_library();

}  // namespace lacuna
