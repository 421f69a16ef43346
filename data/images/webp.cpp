// The reader of WebP by libwebp, which holds the whole image; of an animation, the first frame.
#include "data/images/formats.h"

#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <vector>

namespace lacuna {
namespace {

class WebpReader final : public ImageReader {
 public:
  explicit WebpReader(std::span<const std::uint8_t> file) : file_(file) {
    WebPBitstreamFeatures features;
    if (WebPGetFeatures(file.data(), file.size(), &features) != VP8_STATUS_OK)
      reject_sample("damaged WebP: its header cannot be read");
    set_size(features.height, features.width);
    std::int64_t bytes = 8;  // of the container
    for (std::size_t i = 0; i < 4; ++i) bytes += std::int64_t{file[4 + i]} << (8 * i);
    if (bytes > std::ssize(file)) reject_sample("damaged WebP: the file is cut off");
    animated_ = features.has_animation != 0;
    lossless_ = features.format != 1;  // a mixture of both counts as lossless, too
  }

  std::int64_t held_bytes() const override {
    // Pixels of four bytes: the result, those of the lossless decoder, and a second canvas of an animation.
    return height() * width() * 4 * (1 + (lossless_ ? 1 : 0) + (animated_ ? 1 : 0));
  }

  void read(const ImageBox& box, const RowConsumer& consumer) override {
    if (!animated_) {
      std::vector<std::uint8_t> pixels(static_cast<std::size_t>(height() * width() + 1) * 4);
      if (WebPDecodeRGBAInto(file_.data(), file_.size(), pixels.data(), pixels.size(), static_cast<int>(width() * 4)) ==
          nullptr)
        reject_sample("damaged WebP: the file is cut off or its data are wrong");
      for (std::int64_t y = box.top; y < box.top + box.height; ++y)
        consumer(pixels.data() + (y * width() + box.left) * 4);
      return;
    }
    const WebPData data{file_.data(), file_.size()};
    const std::unique_ptr<WebPAnimDecoder, void (*)(WebPAnimDecoder*)> decoder(WebPAnimDecoderNew(&data, nullptr),
                                                                               WebPAnimDecoderDelete);
    std::uint8_t* frame = nullptr;
    int time = 0;
    if (decoder == nullptr || WebPAnimDecoderGetNext(decoder.get(), &frame, &time) == 0)
      reject_sample("damaged WebP: its first frame cannot be decoded");
    std::vector<std::uint8_t> row(static_cast<std::size_t>(box.width + 1) * 4);  // the consumer reads past its end
    for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
      std::copy_n(frame + (y * width() + box.left) * 4, box.width * 4, row.data());
      consumer(row.data());
    }
  }

 private:
  std::span<const std::uint8_t> file_;
  bool animated_ = false, lossless_ = false;
};

}  // namespace

std::unique_ptr<ImageReader> open_webp(std::span<const std::uint8_t> file) {
  return std::make_unique<WebpReader>(file);
}

}  // namespace lacuna
