#include "apps/output/picture.h"

#include "core/error.h"
#include "data/images/png_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace lacuna::apps {
namespace {

std::string base64(const std::string& bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8U | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) text += k <= count ? digits[group >> (18 - 6 * k) & 63U] : '=';
  }
  return text;
}

}  // namespace

Tensor picture_of(const Tensor& images, std::int64_t row, const std::vector<double>& mean,
                  const std::vector<double>& deviation) {
  const Shape& shape = images.shape();
  const auto channels = shape.rank() == 4 ? static_cast<std::size_t>(shape[3]) : 0;
  expect((channels == 1 || channels == 3) && mean.size() == channels && deviation.size() == channels,
         "expected images [N, H, W, 3 or 1] and a mean and deviation for each channel, got {}", shape);
  const std::int64_t pixels = shape[1] * shape[2];
  const std::vector<double> values = images.row_range(row * pixels, (row + 1) * pixels).to_vector();
  Tensor picture = Tensor::empty({shape[1], shape[2], 3}, DType::u8, Device::cpu, Purpose::data);
  for (std::size_t i = 0; i < static_cast<std::size_t>(pixels); ++i)
    for (std::size_t color = 0; color < 3; ++color) {
      const std::size_t channel = std::min(color, channels - 1);
      const double value = values[i * channels + channel] * deviation[channel] + mean[channel];
      picture.data<std::uint8_t>()[3 * i + color] =
          static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0, 1.0) * 255));
    }
  return picture;
}

Reduced reduced(const Tensor& picture) {
  constexpr std::int64_t most = 320;
  const Shape& shape = picture.shape();
  const std::int64_t by = (std::max(shape[0], shape[1]) + most - 1) / most,
                     height = std::max<std::int64_t>(shape[0] / by, 1),
                     width = std::max<std::int64_t>(shape[1] / by, 1);
  Tensor small = Tensor::empty({height, width, 3}, DType::u8, Device::cpu, Purpose::data);
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t color = 0; color < 3; ++color) {
        std::int64_t sum = 0, count = 0;
        for (std::int64_t from_y = y * by; from_y < std::min((y + 1) * by, shape[0]); ++from_y)
          for (std::int64_t from_x = x * by; from_x < std::min((x + 1) * by, shape[1]); ++from_x, ++count)
            sum += picture.data<const std::uint8_t>()[(from_y * shape[1] + from_x) * 3 + color];
        small.data<std::uint8_t>()[(y * width + x) * 3 + color] = static_cast<std::uint8_t>((sum + count / 2) / count);
      }
  return {std::move(small), by};
}

std::string picture_address(const Tensor& picture) { return "data:image/png;base64," + base64(to_png(picture)); }

}  // namespace lacuna::apps
