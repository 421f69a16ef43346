#include "apps/output/picture.h"

#include "core/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

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

void put(std::string& bytes, std::uint32_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 255U);
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

std::string picture_address(const Tensor& picture) {
  const Shape& shape = picture.shape();
  expect(picture.dtype() == DType::u8 && shape.rank() == 3 && shape[2] == 3, "expected a picture u8 [H, W, 3], got {}",
         shape);
  const auto height = static_cast<std::uint32_t>(shape[0]), width = static_cast<std::uint32_t>(shape[1]);
  const std::uint32_t row_bytes = (3 * width + 3) / 4 * 4, header = 54;
  // A Windows bitmap: rows from the bottom up, blue first, rows of whole four bytes.
  std::string bitmap = "BM";
  put(bitmap, header + row_bytes * height, 4);
  put(bitmap, 0, 4);
  put(bitmap, header, 4);
  put(bitmap, 40, 4);
  put(bitmap, width, 4);
  put(bitmap, height, 4);
  put(bitmap, 1, 2);
  put(bitmap, 24, 2);
  put(bitmap, 0, 4);
  put(bitmap, row_bytes * height, 4);
  for (int i = 0; i < 4; ++i) put(bitmap, 0, 4);
  for (std::uint32_t y = height; y-- > 0;) {
    const std::uint8_t* const row = picture.data<const std::uint8_t>() + std::size_t{y} * width * 3;
    for (std::uint32_t x = 0; x < width; ++x)
      for (const std::size_t color : {2U, 1U, 0U}) bitmap += static_cast<char>(row[3 * x + color]);
    bitmap.append(row_bytes - 3 * width, '\0');
  }
  return "data:image/bmp;base64," + base64(bitmap);
}

std::string picture_address(const Tensor& images, std::int64_t row, const std::vector<double>& mean,
                            const std::vector<double>& deviation) {
  return picture_address(picture_of(images, row, mean, deviation));
}

}  // namespace lacuna::apps
