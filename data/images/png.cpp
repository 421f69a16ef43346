// The reader of PNG by libpng, row by row; an interlaced image is held whole.
#include "core/error.h"
#include "data/images/formats.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include <png.h>

namespace lacuna {
namespace {

constexpr std::size_t signature_bytes = 8;

std::uint32_t big_endian(const std::uint8_t* from) {
  return std::uint32_t{from[0]} << 24 | std::uint32_t{from[1]} << 16 | std::uint32_t{from[2]} << 8 | from[3];
}

/// Rejects a file that is cut off: rows below the box are not decoded.
void check_whole(std::span<const std::uint8_t> file) {
  for (std::size_t at = signature_bytes; at + 12 <= file.size();) {
    const std::size_t length = big_endian(file.data() + at);
    if (length > file.size() - at - 12) break;
    if (std::memcmp(file.data() + at + 4, "IEND", 4) == 0) return;
    at += length + 12;
  }
  reject_sample("damaged PNG: the file is cut off");
}

/// On an error, longjmp returns to `guarded`, which throws; libpng's frames hold no C++ objects.
class PngReader final : public ImageReader {
 public:
  explicit PngReader(std::span<const std::uint8_t> file) : file_(file), handle_(this) {
    guarded([&] {
      png_set_read_fn(png_, this, [](png_structp png, png_bytep out, std::size_t bytes) {
        static_cast<PngReader*>(png_get_io_ptr(png))->take(out, bytes);
      });
      png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
      png_read_info(png_, info_);
    });
    set_size(png_get_image_height(png_, info_), png_get_image_width(png_, info_));
    interlaced_ = png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE;
    const auto type = png_get_color_type(png_, info_);
    wide_grey_ = type == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png_, info_) == 16;
    has_values_ = type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_PALETTE;
  }
  void scale_grey() override { scales_ = true; }
  bool give_values() override { return gives_values_ = has_values_; }
  std::int64_t held_bytes() const override { return interlaced_ ? height() * row_bytes() : 0; }

  void read(const ImageBox& box, const RowConsumer& consumer) override {
    check_whole(file_);
    guarded([&] {
      if (gives_values_) {
        png_set_packing(png_);
        const bool is_grey = png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY;
        if (is_grey && png_get_bit_depth(png_, info_) > 1) png_set_expand_gray_1_2_4_to_8(png_);  // as Pillow
      } else if (!wide_grey_) {
        png_set_strip_16(png_);
        png_set_packing(png_);
        if (png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
        if (png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
        png_set_strip_alpha(png_);
        png_set_gray_to_rgb(png_);
        png_set_filler(png_, 0, PNG_FILLER_AFTER);
      }
      if (interlaced_) png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
    if (static_cast<std::int64_t>(png_get_rowbytes(png_, info_)) > row_bytes())
      reject_sample("damaged PNG: its rows have {} bytes", png_get_rowbytes(png_, info_));
    rows_.resize(static_cast<std::size_t>((interlaced_ ? height() : 1) * row_bytes() + 4));
    if (interlaced_) {
      std::vector<png_bytep> starts;
      for (std::int64_t y = 0; y < height(); ++y) starts.push_back(rows_.data() + y * row_bytes());
      guarded([&] { png_read_image(png_, starts.data()); });
    }
    const bool spreads = wide_grey_ || gives_values_;
    std::vector<std::uint8_t> grey(static_cast<std::size_t>(spreads ? (box.width + 1) * 4 : 0));  // [width + 1, 4]
    for (std::int64_t y = 0; y < box.top + box.height; ++y) {
      std::uint8_t* const row = rows_.data() + (interlaced_ ? y * row_bytes() : 0);
      if (!interlaced_) guarded([&] { png_read_row(png_, row, nullptr); });
      if (y < box.top) continue;
      if (!spreads) {
        consumer(row + box.left * 4);
        continue;
      }
      for (std::int64_t x = box.left; x < box.left + box.width; ++x) {
        std::uint8_t* const to = grey.data() + (x - box.left) * 4;
        if (!gives_values_) {
          std::fill_n(to, 3, grey_of(row + x * 2));
        } else {
          to[0] = wide_grey_ ? row[x * 2 + 1] : row[x];
          to[1] = wide_grey_ ? row[x * 2] : 0;
        }
      }
      consumer(grey.data());
    }
  }

 private:
  /// Clamped at 255, as by Pillow, or scaled.
  std::uint8_t grey_of(const std::uint8_t* from) const {
    if (scales_) return static_cast<std::uint8_t>((from[0] * 256U + from[1] + 128U) / 257U);
    return from[0] > 0 ? 255 : from[1];
  }
  std::int64_t row_bytes() const { return width() * 4; }

  template <class Calls>
  void guarded(const Calls& calls) {
    if (setjmp(png_jmpbuf(png_)) != 0) reject_sample("damaged PNG: {}", message_);
    calls();
  }
  [[noreturn]] static void stop(png_structp png, png_const_charp message) {
    auto& self = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(self.message_, sizeof self.message_, "%s", message);
    png_longjmp(png, 1);
  }
  void take(png_bytep out, std::size_t bytes) {
    if (bytes > file_.size() - at_) png_error(png_, "the file is cut off");
    std::memcpy(out, file_.data() + at_, bytes);
    at_ += bytes;
  }

  std::span<const std::uint8_t> file_;
  std::size_t at_ = 0;
  struct Handle {
    png_structp png;
    png_infop info;
    explicit Handle(PngReader* reader)
        : png(png_create_read_struct(PNG_LIBPNG_VER_STRING, reader, stop, [](png_structp, png_const_charp) {})),
          info(png == nullptr ? nullptr : png_create_info_struct(png)) {
      if (info == nullptr)
        lacuna::fail("libpng {} cannot be used: this program was built with {}", png_get_libpng_ver(nullptr),
                     PNG_LIBPNG_VER_STRING);
    }
    ~Handle() { png_destroy_read_struct(&png, &info, nullptr); }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
  };
  Handle handle_;
  png_structp png_ = handle_.png;
  png_infop info_ = handle_.info;
  bool interlaced_ = false, wide_grey_ = false, scales_ = false, has_values_ = false, gives_values_ = false;
  std::vector<std::uint8_t> rows_;  // one, or all of an interlaced image
  char message_[128] = "";
};

}  // namespace

std::unique_ptr<ImageReader> open_png(std::span<const std::uint8_t> file) { return std::make_unique<PngReader>(file); }

}  // namespace lacuna
