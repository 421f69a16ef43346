#include "data/images/image_reader.h"

#include "data/images/decoder_memory.h"
#include "data/images/formats.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace lacuna {

std::int64_t ImageReader::shrink(std::int64_t) { return 1; }

void ImageReader::set_size(std::int64_t height, std::int64_t width) {
  if (height < 1 || width < 1 || height > most_pixels / width)
    reject_sample("the image has {}×{} pixels, expected 1 to {} million in all", width, height,
                  most_pixels / 1'000'000);
  height_ = height;
  width_ = width;
}

namespace {

struct Magic {
  std::string_view bytes;
  std::size_t at = 0;
  std::unique_ptr<ImageReader> (*open)(std::span<const std::uint8_t> file);
  std::string_view name;
};

using namespace std::string_view_literals;
constexpr std::array magics{
    Magic{"\xff\xd8\xff"sv, 0, open_jpeg, "JPEG"},
    Magic{"\x89PNG\r\n\x1a\n"sv, 0, open_png, "PNG"},
    Magic{"BM"sv, 0, open_bmp, "BMP"},
    Magic{"GIF8"sv, 0, open_gif, "GIF"},
    Magic{"P5"sv, 0, open_pnm, "PGM"},
    Magic{"P6"sv, 0, open_pnm, "PPM"},
    Magic{"WEBP"sv, 8, open_webp, "WebP"},
    Magic{"II*\0"sv, 0, nullptr, "TIFF"},
    Magic{"MM\0*"sv, 0, nullptr, "TIFF"},
    Magic{"ftypavif"sv, 4, nullptr, "AVIF"},
    Magic{"ftypheic"sv, 4, nullptr, "HEIC"},
    Magic{"ftypmif1"sv, 4, nullptr, "HEIF"},
    Magic{"\x00\x00\x00\x0cjP  "sv, 0, nullptr, "JPEG 2000"},
};

const Magic* find_format(std::span<const std::uint8_t> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const auto found = std::ranges::find_if(magics, [&](const Magic& magic) {
    return text.substr(std::min(magic.at, text.size())).starts_with(magic.bytes);
  });
  return found == magics.end() ? nullptr : &*found;
}

const Magic& format_of(std::span<const std::uint8_t> file) {
  const Magic* const found = find_format(file);
  if (file.empty()) reject_sample("the file is empty");
  if (found == nullptr) reject_sample("the file is no image: expected a JPEG, PNG, WebP, BMP, GIF, PGM or PPM");
  if (found->open == nullptr)
    reject_sample(
        "{} is not read: convert it to PNG, as by ImageMagick's `mogrify -format png FILE`, and remove the original",
        found->name);
  return *found;
}

/// Rotates and flips an image by its EXIF orientation; it holds the whole image meanwhile.
class OrientedReader final : public ImageReader {
 public:
  OrientedReader(std::unique_ptr<ImageReader> source, int orientation)
      : source_(std::move(source)), orientation_(orientation) {
    const bool turned = orientation >= 5;
    set_size(turned ? source_->width() : source_->height(), turned ? source_->height() : source_->width());
  }

  std::int64_t held_bytes() const override { return source_->held_bytes() + height() * width() * 4; }

  void read(const ImageBox& box, const RowConsumer& consumer) override {
    const std::int64_t rows = source_->height(), columns = source_->width();
    const Tensor whole = Tensor::empty({rows, columns, 4}, DType::u8, Device::cpu, Purpose::data);
    std::uint8_t* to = whole.data<std::uint8_t>();
    source_->read({.height = rows, .width = columns},
                  [&](const std::uint8_t* row) { to = std::copy_n(row, columns * 4, to); });
    // Each orientation swaps the axes or not, and then reverses some source axes.
    const bool turned = orientation_ >= 5;
    const bool up = orientation_ == 3 || orientation_ == 4 || orientation_ == 6 || orientation_ == 7;
    const bool left = orientation_ == 2 || orientation_ == 3 || orientation_ == 7 || orientation_ == 8;
    std::vector<std::uint8_t> line(static_cast<std::size_t>(box.width + 1) * 4);  // [width + 1, 4]
    for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
      for (std::int64_t x = 0; x < box.width; ++x) {
        std::int64_t row = turned ? box.left + x : y, column = turned ? y : box.left + x;
        if (up) row = rows - 1 - row;
        if (left) column = columns - 1 - column;
        std::memcpy(line.data() + x * 4, whole.data<const std::uint8_t>() + (row * columns + column) * 4, 4);
      }
      consumer(line.data());
    }
  }

 private:
  std::unique_ptr<ImageReader> source_;
  int orientation_;
};

}  // namespace

ImageFormat image_format(std::span<const std::uint8_t> bytes) {
  const Magic* const found = find_format(bytes);
  return found == nullptr ? ImageFormat{} : ImageFormat{found->name, found->open != nullptr};
}

std::unique_ptr<ImageReader> open_image(std::span<const std::uint8_t> bytes, const DecodeOptions& options) {
  std::unique_ptr<ImageReader> reader = format_of(bytes).open(bytes);
  if (options.scale_grey) reader->scale_grey();
  const int orientation = options.apply_exif ? exif_orientation(bytes) : 1;
  if (orientation == 1) return reader;
  return std::make_unique<OrientedReader>(std::move(reader), orientation);
}

Tensor decode_image(std::span<const std::uint8_t> bytes, const DecodeOptions& options) {
  const std::unique_ptr<ImageReader> reader = open_image(bytes, options);
  const std::int64_t height = reader->height(), width = reader->width();
  Tensor image = Tensor::empty({height, width, 3}, DType::u8, Device::cpu, Purpose::data);
  std::uint8_t* to = image.data<std::uint8_t>();
  const DecoderMemory memory(reader->held_bytes());
  reader->read({.height = height, .width = width}, [&](const std::uint8_t* row) {
    for (std::int64_t x = 0; x < width; ++x, row += 4) to = std::copy_n(row, 3, to);
  });
  return image;
}

}  // namespace lacuna
