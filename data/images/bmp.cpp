// The reader of uncompressed BMP, row by row from the file.
#include "data/images/formats.h"

#include <array>
#include <cstdlib>
#include <vector>

namespace lacuna {
namespace {

using File = std::span<const std::uint8_t>;

class BmpReader final : public ImageReader {
 public:
  explicit BmpReader(File file) : file_(file) {
    const std::int64_t header = number(14, 4);
    const bool old = header == 12;  // OS/2 1.x
    const std::int64_t width = old ? number(18, 2) : as_signed(number(18, 4));
    const std::int64_t height = old ? number(20, 2) : as_signed(number(22, 4));
    bits_ = number(old ? 24 : 28, 2);
    const std::int64_t compression = old ? 0 : number(30, 4);
    set_size(std::abs(height), width);
    top_down_ = height < 0;
    if (bits_ != 1 && bits_ != 4 && bits_ != 8 && bits_ != 24 && bits_ != 32)
      reject_sample("BMP of {} bits a pixel is not read: convert the image", bits_);
    if (compression != 0 && !(compression == bit_fields && bits_ == 32 && has_usual_masks()))
      reject_sample("BMP with compression {} is not read: convert the image", compression);
    if (bits_ <= 8) read_palette(14 + header, old ? 3 : 4, old ? 0 : number(46, 4));
    begin_ = number(10, 4);
    row_bytes_ = (width * bits_ + 31) / 32 * 4;
    if (begin_ + row_bytes_ * this->height() > std::ssize(file)) reject_sample("damaged BMP: the file is cut off");
  }

  bool give_values() override { return gives_values_ = bits_ <= 8; }

  void read(const ImageBox& box, const RowConsumer& consumer) override {
    std::vector<std::uint8_t> row(static_cast<std::size_t>(box.width + 1) * 4);  // [width + 1, 4]
    for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
      const File line =
          file_.subspan(static_cast<std::size_t>(begin_ + row_bytes_ * (top_down_ ? y : height() - 1 - y)),
                        static_cast<std::size_t>(row_bytes_));
      for (std::int64_t x = 0; x < box.width; ++x) {
        const auto at = static_cast<std::size_t>(box.left + x);
        const Colour colour = gives_values_ ? Colour{index_at(line, at), 0, 0} : colour_at(line, at);
        std::copy(colour.begin(), colour.end(), row.data() + x * 4);
      }
      consumer(row.data());
    }
  }

 private:
  using Colour = std::array<std::uint8_t, 3>;
  static constexpr std::int64_t bit_fields = 3;

  std::int64_t number(std::size_t at, std::size_t bytes) const {
    if (at + bytes > file_.size()) reject_sample("damaged BMP: the file is cut off");
    std::int64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value |= std::int64_t{file_[at + i]} << (8 * i);
    return value;
  }
  static std::int64_t as_signed(std::int64_t value) { return static_cast<std::int32_t>(value); }
  bool has_usual_masks() const { return number(54, 4) == 0xff0000 && number(58, 4) == 0xff00 && number(62, 4) == 0xff; }
  /// Swaps channels, because BMP stores blue first.
  Colour colour_in(File bytes, std::size_t at) const { return {bytes[at + 2], bytes[at + 1], bytes[at]}; }

  void read_palette(std::int64_t at, std::int64_t entry, std::int64_t colours) {
    const std::int64_t most = std::int64_t{1} << bits_;
    if (colours < 1 || colours > most) colours = most;
    if (at + entry * colours > std::ssize(file_)) reject_sample("damaged BMP: the file is cut off");
    for (std::int64_t i = 0; i < colours; ++i)
      palette_.push_back(colour_in(file_, static_cast<std::size_t>(at + entry * i)));
  }

  std::uint8_t index_at(File line, std::size_t x) const {
    const std::size_t bit = x * static_cast<std::size_t>(bits_);
    const auto shift = static_cast<unsigned>(8 - bits_) - static_cast<unsigned>(bit % 8);
    return static_cast<std::uint8_t>((static_cast<unsigned>(line[bit / 8]) >> shift) & ((1U << bits_) - 1));
  }

  Colour colour_at(File line, std::size_t x) const {
    if (bits_ >= 24) return colour_in(line, x * static_cast<std::size_t>(bits_ / 8));
    const std::uint8_t index = index_at(line, x);
    if (index >= palette_.size()) reject_sample("damaged BMP: a pixel has colour {} of {}", index, palette_.size());
    return palette_[index];
  }

  File file_;
  std::int64_t bits_ = 0, begin_ = 0, row_bytes_ = 0;
  bool top_down_ = false, gives_values_ = false;
  std::vector<Colour> palette_;
};

}  // namespace

std::unique_ptr<ImageReader> open_bmp(File file) { return std::make_unique<BmpReader>(file); }

}  // namespace lacuna
