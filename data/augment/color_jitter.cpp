#include "data/augment/color_jitter.h"

#include "data/augment/colors.h"
#include "data/augment/operations.h"
#include "data/augment/tones.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lacuna::augment {

ColorJitter::ColorJitter(const std::vector<double>& strengths, double probability)
    : PixelTransform("data.color_jitter"), probability_(probability) {
  if (strengths.size() == 1)
    std::fill_n(strengths_.begin(), 3, strengths[0]);
  else if (strengths.size() == 3 || strengths.size() == 4)
    std::ranges::copy(strengths, strengths_.begin());
  else
    reject(
        "data.color_jitter: expected one number, or those of brightness, contrast, saturation and perhaps hue; got {}",
        strengths.size());
  for (const double strength : strengths_)
    if (!(strength >= 0)) reject("data.color_jitter: expected numbers of 0 or more, got {}", strength);
  if (strengths_[3] > 0.5) reject("data.color_jitter: expected a hue of 0.5 at most, got {}", strengths_[3]);
}

Geometry ColorJitter::apply(SampleImage& image, SampleRandom& random) const {
  if (random.uniform() >= probability_) return {};
  std::array<std::size_t, 4> order{0, 1, 2, 3};
  for (std::int64_t i = 3; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(random.below(i + 1))]);
  const ImageView pixels = view_of(image.tensor());
  for (const std::size_t which : order) {
    const double strength = strengths_[which];
    if (strength == 0) continue;
    if (which == 3) {
      hue(pixels, random.uniform(-strength, strength));
      continue;
    }
    const auto factor = static_cast<float>(random.uniform(std::max(0.0, 1 - strength), 1 + strength));
    constexpr void (*operations[])(const ImageView&, float){brightness, contrast, saturation};
    operations[which](pixels, factor);
  }
  return {};
}

Geometry RandomGrayscale::apply(SampleImage& image, SampleRandom& random) const {
  if (random.uniform() < probability_) saturation(view_of(image.tensor()), 0);
  return {};
}

Geometry RandomBlur::apply(SampleImage& image, SampleRandom& random) const {
  if (random.uniform() < probability_) blur(image, random.uniform(0.1, 2.0));
  return {};
}

}  // namespace lacuna::augment
