// The reader of binary PGM and PPM (https://netpbm.sourceforge.net/doc/ppm.html).
#include "data/images/formats.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lacuna {
namespace {

using File = std::span<const std::uint8_t>;

class PnmReader final : public ImageReader {
 public:
  explicit PnmReader(File file) : file_(file), channels_(file[1] == '6' ? 3 : 1) {
    const std::int64_t width = next_number(), height = next_number();
    largest_ = next_number();
    set_size(height, width);
    if (largest_ < 1 || largest_ > 65535) reject_sample("the largest value is {}, expected 1 to 65535", largest_);
    ++at_;  // a single whitespace byte ends the header
    const std::int64_t bytes = height * width * channels_ * value_bytes();
    if (at_ > file.size() || static_cast<std::int64_t>(file.size() - at_) < bytes)
      reject_sample("the file is cut off: {} bytes of pixels expected", bytes);
  }

  void scale_grey() override { scales_ = true; }
  bool give_values() override { return gives_values_ = channels_ == 1; }

  void read(const ImageBox& box, const RowConsumer& consumer) override {
    std::vector<std::uint8_t> row(static_cast<std::size_t>(box.width + 1) * 4);  // [width + 1, 4]
    const std::int64_t pixel_bytes = channels_ * value_bytes();
    for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
      const std::uint8_t* from = file_.data() + at_ + (y * width() + box.left) * pixel_bytes;
      for (std::int64_t x = 0; x < box.width && gives_values_; ++x, from += pixel_bytes) {
        row[static_cast<std::size_t>(x * 4)] = from[value_bytes() - 1];
        row[static_cast<std::size_t>(x * 4 + 1)] = value_bytes() == 2 ? from[0] : 0;
      }
      for (std::int64_t x = 0; x < box.width && !gives_values_; ++x, from += pixel_bytes)
        for (std::int64_t c = 0; c < 3; ++c)
          row[static_cast<std::size_t>(x * 4 + c)] = pixel(from + (channels_ == 3 ? c : 0) * value_bytes());
      consumer(row.data());
    }
  }

 private:
  std::int64_t value_bytes() const { return largest_ > 255 ? 2 : 1; }

  /// Pillow's scaling: grey of more than 8 bits is scaled to 16 bits, then clamped at 255; or all to 8 bits.
  std::uint8_t pixel(const std::uint8_t* from) const {
    const int value = value_bytes() == 1 ? from[0] : from[0] * 256 + from[1];
    if (largest_ == 255) return from[0];
    const double most = channels_ == 1 && largest_ > 255 && !scales_ ? 65535 : 255;
    return static_cast<std::uint8_t>(
        std::min(255.0, std::nearbyint(static_cast<double>(value) / static_cast<double>(largest_) * most)));
  }

  /// Reads the next number of the header; comments run from # to the end of the line.
  std::int64_t next_number() {
    const auto is_digit = [&] { return at_ < file_.size() && '0' <= file_[at_] && file_[at_] <= '9'; };
    for (bool comment = false; at_ < file_.size() && (comment || !is_digit()); ++at_) {
      const std::uint8_t c = file_[at_];
      comment = comment ? c != '\n' && c != '\r' : c == '#';
      if (!comment && c != ' ' && (c < '\t' || c > '\r')) break;
    }
    if (!is_digit()) reject_sample("the header is damaged or cut off");
    std::int64_t number = 0;
    for (; is_digit() && number < most_pixels; ++at_) number = number * 10 + (file_[at_] - '0');
    return number;
  }

  File file_;
  std::size_t at_ = 2;  // position in the header, then the start of the pixels
  std::int64_t channels_, largest_ = 0;
  bool scales_ = false, gives_values_ = false;
};

}  // namespace

std::unique_ptr<ImageReader> open_pnm(File file) { return std::make_unique<PnmReader>(file); }

}  // namespace lacuna
