#include "data/images/formats.h"

#ifdef LACUNA_JPEG

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdio>

// libjpeg's headers need cstdio first.
#include <jerror.h>
#include <jpeglib.h>

namespace lacuna {
namespace {

/// A libjpeg decoder. On an error, longjmp returns to `guarded`, which throws; that is safe, since libjpeg's frames
/// hold no C++ objects.
class Decoder {
 public:
  jpeg_decompress_struct info{};

  Decoder() {
    info.err = jpeg_std_error(&errors_);
    info.client_data = this;
    errors_.error_exit = [](j_common_ptr of) { self(of).stop_with_message(); };
    errors_.emit_message = [](j_common_ptr of, int level) {
      if (level < 0 && !is_harmless(of->err->msg_code)) self(of).stop_with_message();
    };
    progress_.progress_monitor = [](j_common_ptr of) {
      // A small file with thousands of scans would keep a decoder busy for hours.
      if (reinterpret_cast<j_decompress_ptr>(of)->input_scan_number > most_scans) self(of).stop("too many scans");
    };
  }
  ~Decoder() { jpeg_destroy_decompress(&info); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Runs `calls`, which must hold no object with a destructor while it calls libjpeg, because of longjmp.
  template <class Calls>
  void guarded(const Calls& calls) {
    if (setjmp(back_) != 0) reject_sample("damaged JPEG: {}", message_);
    calls();
  }

  void watch() { info.progress = &progress_; }

 private:
  static constexpr int most_scans = 500;

  static Decoder& self(j_common_ptr of) { return *static_cast<Decoder*>(of->client_data); }
  /// Whether a warning concerns only headers or bytes between segments, so that all pixels are intact.
  static bool is_harmless(int code) {
    return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR;
  }
  [[noreturn]] void stop_with_message() {
    char text[JMSG_LENGTH_MAX];
    errors_.format_message(reinterpret_cast<j_common_ptr>(&info), text);
    stop(text);
  }
  [[noreturn]] void stop(const char* message) {
    std::snprintf(message_, sizeof message_, "%s", message);
    std::longjmp(back_, 1);
  }

  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf back_;
  char message_[JMSG_LENGTH_MAX] = "";
};

/// Pillow's conversion: inverts (Adobe stores CMYK inverted), then rounds (255 − c)(255 − k) / 255.
void cmyk_to_rgb(std::uint8_t* row, std::int64_t width) {
  for (std::int64_t x = 0; x < width; ++x, row += 4) {
    const std::uint32_t key = row[3];
    for (int c = 0; c < 3; ++c) {
      const std::uint32_t product = (255U - row[c]) * key + 128;
      row[c] = static_cast<std::uint8_t>(key - (((product >> 8) + product) >> 8));
    }
  }
}

class JpegReader final : public ImageReader {
 public:
  explicit JpegReader(std::span<const std::uint8_t> file) : file_(file) {
    jpeg_decompress_struct& info = decoder_.info;
    decoder_.guarded([&] {
      jpeg_create_decompress(&info);
      decoder_.watch();
      jpeg_mem_src(&info, file.data(), file.size());
      jpeg_read_header(&info, TRUE);
    });
    if (info.arith_code) reject_sample("arithmetic-coded JPEG is not read: convert the image");
    if (info.num_components == 2 || info.num_components > 4)
      reject_sample("JPEG of {} components, expected 1, 3 or 4", info.num_components);
    info.out_color_space = info.num_components == 4 ? JCS_CMYK : JCS_EXT_RGBX;
    set_size(info.image_height, info.image_width);
  }

  std::int64_t shrink(std::int64_t factor) override {
    jpeg_decompress_struct& info = decoder_.info;
    info.scale_num = 1;
    info.scale_denom = static_cast<unsigned>(factor);
    decoder_.guarded([&] { jpeg_calc_output_dimensions(&info); });
    set_size(info.output_height, info.output_width);
    return factor;
  }

  /// Coefficients of all blocks, in two bytes, of a progressive file.
  std::int64_t held_bytes() const override {
    jpeg_decompress_struct& info = decoder_.info;
    if (jpeg_has_multiple_scans(&info) == FALSE) return 0;
    std::int64_t blocks = 0;
    for (int c = 0; c < info.num_components; ++c)
      blocks += std::int64_t{info.comp_info[c].width_in_blocks} * info.comp_info[c].height_in_blocks;
    return blocks * DCTSIZE2 * 2;
  }

  void read(const ImageBox& box, const RowConsumer& consumer) override {
    jpeg_decompress_struct& info = decoder_.info;
    // Chroma upsampling reads neighbouring columns, so the decoded region extends past the crop.
    constexpr std::int64_t margin = 16;
    const bool part = jpeg_has_multiple_scans(&info) == FALSE;
    const std::int64_t right = part ? std::min(width(), box.left + box.width + margin) : width();
    const bool early = part && ends_whole();
    auto from = static_cast<JDIMENSION>(part ? std::max<std::int64_t>(0, box.left - margin) : 0);
    auto columns = static_cast<JDIMENSION>(right - from);
    decoder_.guarded([&] {
      jpeg_start_decompress(&info);
      if (columns < info.output_width) jpeg_crop_scanline(&info, &from, &columns);
      // The consumer may read one pixel past the row.
      JSAMPARRAY row = info.mem->alloc_sarray(reinterpret_cast<j_common_ptr>(&info), JPOOL_IMAGE, (columns + 1) * 4, 1);
      if (box.top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(box.top));
      const std::uint8_t* const wanted = row[0] + (box.left - from) * 4;
      for (std::int64_t y = 0; y < box.height; ++y) {
        jpeg_read_scanlines(&info, row, 1);
        if (info.out_color_space == JCS_CMYK) cmyk_to_rgb(row[0], columns);
        consumer(wanted);
      }
      if (early) return;
      // A truncated file is an error even if the box is intact. Skipping alone does not decode, so the last row is
      // read.
      if (const JDIMENSION left = info.output_height - info.output_scanline; left > 0) {
        if (left > 1) jpeg_skip_scanlines(&info, left - 1);
        jpeg_read_scanlines(&info, row, 1);
      }
      jpeg_finish_decompress(&info);
    });
  }

 private:
  /// Whether the file ends with the end-of-image marker, optionally followed by zeros.
  bool ends_whole() const {
    std::size_t end = file_.size();
    while (end > 2 && file_[end - 1] == 0) --end;
    return end > 2 && file_[end - 2] == 0xff && file_[end - 1] == JPEG_EOI;
  }

  std::span<const std::uint8_t> file_;
  mutable Decoder decoder_;  // libjpeg asks for one that it may change
};

}  // namespace

std::unique_ptr<ImageReader> open_jpeg(std::span<const std::uint8_t> file) {
  return std::make_unique<JpegReader>(file);
}
const char* jpeg_library() { return "libjpeg-turbo"; }

}  // namespace lacuna

#else

namespace lacuna {

std::unique_ptr<ImageReader> open_jpeg(std::span<const std::uint8_t> file) { return open_jpeg_with_stb(file); }
const char* jpeg_library() { return "stb_image"; }

}  // namespace lacuna

#endif
