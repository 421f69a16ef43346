#include "data/augment/random_erasing.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>

namespace lacuna::augment {
namespace {

/// A stream of a sample's standard normal numbers.
class Noise {
 public:
  explicit Noise(const SampleRandom& random) : random_(random) {}

  float next() {
    if (used_ == 4) {
      block_ = random_.noise(blocks_++);
      used_ = 0;
    }
    return block_[used_++];
  }

 private:
  const SampleRandom& random_;
  std::array<float, 4> block_{};
  std::size_t used_ = 4;
  std::uint32_t blocks_ = 0;
};

struct Rectangle {
  std::int64_t top, left, height, width;
};

/// Draws a rectangle; returns nothing if ten draws do not fit.
std::optional<Rectangle> drawn_rectangle(std::int64_t height, std::int64_t width, std::int64_t of,
                                         SampleRandom& random) {
  const auto area = static_cast<double>(height * width);
  const double flattest = std::log(0.3);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = random.uniform(0.02, 1.0 / 3.0) * area / static_cast<double>(of);
    const double ratio = std::exp(random.uniform(flattest, -flattest));
    // Python's rounding: halves to even.
    const auto side = [](double square) { return static_cast<std::int64_t>(std::nearbyint(std::sqrt(square))); };
    const std::int64_t tall = side(target * ratio), wide = side(target / ratio);
    if (tall >= height || wide >= width) continue;
    return Rectangle{random.below(height - tall + 1), random.below(width - wide + 1), tall, wide};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Erasing> erasing_of(std::string_view name) {
  if (name == "const") return Erasing::constant;
  if (name == "rand") return Erasing::color;
  if (name == "pixel") return Erasing::noise;
  return std::nullopt;
}

RandomErasing::RandomErasing(double probability, Erasing how, std::int64_t most)
    : probability_(probability), how_(how), most_(most) {
  expect(most > 0, "expected 1 or more rectangles, got {}", most);
}

SampleField RandomErasing::describe(SampleField image) const {
  expect(image.dtype == DType::f32 && image.shape.rank() == 3, "erasing expects images f32 [H, W, C], got {} {}",
         name_of(image.dtype), image.shape);
  return image;
}

Geometry RandomErasing::apply(SampleImage& image, SampleRandom& random) const {
  if (random.uniform() >= probability_) return {};
  const Tensor& pixels = image.tensor();
  const std::int64_t height = pixels.shape()[0], width = pixels.shape()[1], channels = pixels.shape()[2];
  const std::int64_t rectangles = most_ == 1 ? 1 : 1 + random.below(most_);
  Noise noise(random);
  std::vector<float> color(static_cast<std::size_t>(channels));
  for (std::int64_t i = 0; i < rectangles; ++i) {
    const auto rectangle = drawn_rectangle(height, width, rectangles, random);
    if (!rectangle) continue;
    if (how_ == Erasing::color) std::ranges::generate(color, [&] { return noise.next(); });
    for (std::int64_t y = rectangle->top; y < rectangle->top + rectangle->height; ++y) {
      float* const row = pixels.data<float>() + (y * width + rectangle->left) * channels;
      if (how_ == Erasing::noise)
        std::generate_n(row, rectangle->width * channels, [&] { return noise.next(); });
      else
        for (std::int64_t x = 0; x < rectangle->width; ++x) std::ranges::copy(color, row + x * channels);
    }
  }
  return {};
}

}  // namespace lacuna::augment
