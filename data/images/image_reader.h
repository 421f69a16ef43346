// Incremental image decoding: first the size, then the rows of a box, so that only the needed pixels are decoded and
// held.
//
// Pixels are those of Pillow's Image.open(file).convert("RGB"): grey is repeated in three channels, palettes are looked
// up, and alpha and colour profiles are dropped. 16-bit values keep their upper 8 bits, except that those of grey
// images are clamped at 255 unless they are scaled.
#pragma once

#include "core/tensor.h"
#include "data/geometry.h"
#include "data/sample.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace lacuna {

/// The maximum number of pixels of an image, Pillow's limit.
inline constexpr std::int64_t most_pixels = 178'956'970;

/// Receives a row of RGB pixels [width, 4], whose fourth bytes are padding. It may read 4 bytes past the row.
using RowConsumer = std::function<void(const std::uint8_t* row)>;

/// Decodes one image. It is single-use: `read` is called once.
class ImageReader {
 public:
  virtual ~ImageReader() = default;
  ImageReader(const ImageReader&) = delete;
  ImageReader& operator=(const ImageReader&) = delete;

  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

  /// Downscales the image by up to `factor` (1, 2, 4 or 8) while decoding, if that saves time, and returns the factor
  /// used. The sides are rounded up. Call it before `read`.
  virtual std::int64_t shrink(std::int64_t factor);
  /// Scales grey of more than 8 bits to 8, in place of clamping it. Call it before `read`.
  virtual void scale_grey() {}
  /// Lets `read` pass the values of grey and palette images as the file has them: a palette's index, or grey of any
  /// width, its low byte first in the first two bytes of a pixel. False if the file has colours. Call it before `read`.
  virtual bool give_values() { return false; }
  /// Bytes that `read` holds beyond a few rows, because the format needs the whole image.
  virtual std::int64_t held_bytes() const { return 0; }
  /// Passes the rows of `box` to `row`, top to bottom. Damaged data throws DamagedSample.
  virtual void read(const ImageBox& box, const RowConsumer& row) = 0;

 protected:
  ImageReader() = default;
  void set_size(std::int64_t height, std::int64_t width);

 private:
  std::int64_t height_ = 0, width_ = 0;
};

struct DecodeOptions {
  bool apply_exif = false;   // rotate and flip images by their EXIF orientation
  bool scale_grey = false;  // 16-bit grey: scale it to 8 bits, in place of Pillow's clamping at 255
};

/// The format that a file's first bytes tell; its name is empty if they tell none.
struct ImageFormat {
  std::string_view name{};
  bool is_read = false;
};
ImageFormat image_format(std::span<const std::uint8_t> bytes);

/// Reads the header of a JPEG, PNG, WebP, BMP, GIF (first frame of both), PGM or PPM file, recognised by its content;
/// `bytes` must outlive the reader. Other formats, damaged headers and images above most_pixels throw DamagedSample.
std::unique_ptr<ImageReader> open_image(std::span<const std::uint8_t> bytes, const DecodeOptions& options = {});

/// The whole image, u8 [height, width, 3].
Tensor decode_image(std::span<const std::uint8_t> bytes, const DecodeOptions& options = {});

/// The library that decodes JPEGs: `libjpeg-turbo`, or `stb_image` in builds without it.
const char* jpeg_library();

}  // namespace lacuna
