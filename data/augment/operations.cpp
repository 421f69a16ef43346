#include "data/augment/operations.h"

#include "data/augment/affine.h"
#include "data/augment/colors.h"
#include "data/augment/filters.h"
#include "data/augment/tones.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lacuna::augment {
namespace {

using Argument = decltype(Operation::argument);
using Apply = decltype(Operation::apply);

// Functions from magnitude to argument, named after timm's (auto_augment.py of timm 1.0.31).

constexpr double top = 10;  // the magnitude of level 1

constexpr Argument rotate_level = [](double m, double sign, const Surroundings&) { return sign * (m / top * 30.0); };
constexpr Argument shear_level = [](double m, double sign, const Surroundings&) { return sign * (m / top * 0.3); };
constexpr Argument translate_level = [](double m, double sign, const Surroundings& surroundings) {
  return sign * (m / top * surroundings.translation);
};
constexpr Argument enhance_level = [](double m, double, const Surroundings&) { return m / top * 1.8 + 0.1; };
constexpr Argument enhance_increasing_level = [](double m, double sign, const Surroundings&) {
  return std::max(0.1, 1.0 + sign * (m / top * 0.9));
};
constexpr Argument posterize_level = [](double m, double, const Surroundings&) { return std::trunc(m / top * 4); };
constexpr Argument posterize_increasing_level = [](double m, double, const Surroundings&) {
  return 4 - std::trunc(m / top * 4);
};
constexpr Argument posterize_original_level = [](double m, double, const Surroundings&) {
  return std::trunc(m / top * 4) + 4;
};
constexpr Argument solarize_level = [](double m, double, const Surroundings&) {
  return std::min(256.0, std::trunc(m / top * 256));
};
constexpr Argument solarize_increasing_level = [](double m, double, const Surroundings&) {
  return 256 - std::min(256.0, std::trunc(m / top * 256));
};
constexpr Argument solarize_add_level = [](double m, double, const Surroundings&) {
  return std::min(128.0, std::trunc(m / top * 110));
};
template <int low_tenths, int high_tenths>
constexpr Argument between_level = [](double m, double, const Surroundings&) {
  constexpr double low = low_tenths / 10.0, high = high_tenths / 10.0;
  return std::max(low, std::min(high, low + (high - low) * (m / top)));
};

/// Applies `function(image, argument)` in place, with an integer or float argument.
template <auto function>
constexpr Apply in_place = [](SampleImage& image, double argument, const Surroundings&, SampleRandom&) {
  const ImageView pixels = view_of(image.tensor());
  if constexpr (requires { function(pixels); })
    function(pixels);
  else if constexpr (requires(void (*f)(const ImageView&, int)) { f = function; })
    function(pixels, static_cast<int>(argument));
  else
    function(pixels, static_cast<float>(argument));
  return Geometry();
};

}  // namespace

void blur(SampleImage& image, double deviation) {
  const Tensor pixels = image.tensor();
  gaussian_blur(view_of(pixels), view_of(image.scratch(pixels.shape(), DType::u8)), static_cast<float>(deviation));
}

namespace {

/// Applies the affine map that `function(image, argument)` returns.
template <auto map>
constexpr Apply moved =
    [](SampleImage& image, double argument, const Surroundings& surroundings, SampleRandom& random) {
      const ResizeFilter filter = surroundings.filter    ? *surroundings.filter
                                  : random.below(2) == 0 ? ResizeFilter::bilinear
                                                         : ResizeFilter::bicubic;
      const ImageView pixels = view_of(image.tensor());
      const Tensor scratch = image.scratch({pixels.height, pixels.width, 4}, DType::u8);
      const Affine affine = map(pixels, argument);
      transform(affine, filter, surroundings.fill, pixels,
                {reinterpret_cast<std::uint32_t*>(scratch.data<std::uint8_t>()),
                 static_cast<std::size_t>(pixels.height * pixels.width)});
      const ImageSize size(pixels.height, pixels.width);
      return Geometry{Move{.from = size, .to = size, .how = affine}};
    };

constexpr auto sheared_x = [](const ImageView&, double factor) { return Affine{.xy = factor}; };
constexpr auto sheared_y = [](const ImageView&, double factor) { return Affine{.yx = factor}; };
constexpr auto translated_x = [](const ImageView& image, double share) {
  return Affine{.x0 = share * static_cast<double>(image.width)};
};
constexpr auto translated_y = [](const ImageView& image, double share) {
  return Affine{.y0 = share * static_cast<double>(image.height)};
};

constexpr Apply sharpened = [](SampleImage& image, double factor, const Surroundings&, SampleRandom&) {
  const Tensor pixels = image.tensor();
  Tensor out = image.make(pixels.shape(), DType::u8);
  sharpness(view_of(pixels), view_of(out), static_cast<float>(factor));
  image.set(std::move(out));
  return Geometry();
};
constexpr Apply desaturated = [](SampleImage& image, double factor, const Surroundings&, SampleRandom&) {
  saturation(view_of(image.tensor()), static_cast<float>(std::clamp(1.0 - factor, 0.0, 1.0)));
  return Geometry();
};
constexpr Apply blurred = [](SampleImage& image, double deviation, const Surroundings&, SampleRandom&) {
  blur(image, deviation);
  return Geometry();
};
constexpr Apply blurred_randomly = [](SampleImage& image, double factor, const Surroundings&, SampleRandom& random) {
  blur(image, random.uniform(0.1, 2.0 * factor));
  return Geometry();
};

constexpr std::array table{
    Operation{"AutoContrast", false, nullptr, in_place<auto_contrast>},
    Operation{"Equalize", false, nullptr, in_place<equalize>},
    Operation{"Invert", false, nullptr, in_place<invert>},
    Operation{"Rotate", true, rotate_level, moved<rotation>},
    Operation{"Posterize", false, posterize_level, in_place<posterize>},
    Operation{"PosterizeIncreasing", false, posterize_increasing_level, in_place<posterize>},
    Operation{"PosterizeOriginal", false, posterize_original_level, in_place<posterize>},
    Operation{"Solarize", false, solarize_level, in_place<solarize>},
    Operation{"SolarizeIncreasing", false, solarize_increasing_level, in_place<solarize>},
    Operation{"SolarizeAdd", false, solarize_add_level, in_place<solarize_add>},
    Operation{"Color", false, enhance_level, in_place<saturation>},
    Operation{"ColorIncreasing", true, enhance_increasing_level, in_place<saturation>},
    Operation{"Contrast", false, enhance_level, in_place<contrast>},
    Operation{"ContrastIncreasing", true, enhance_increasing_level, in_place<contrast>},
    Operation{"Brightness", false, enhance_level, in_place<brightness>},
    Operation{"BrightnessIncreasing", true, enhance_increasing_level, in_place<brightness>},
    Operation{"Sharpness", false, enhance_level, sharpened},
    Operation{"SharpnessIncreasing", true, enhance_increasing_level, sharpened},
    Operation{"ShearX", true, shear_level, moved<sheared_x>},
    Operation{"ShearY", true, shear_level, moved<sheared_y>},
    Operation{"TranslateXRel", true, translate_level, moved<translated_x>},
    Operation{"TranslateYRel", true, translate_level, moved<translated_y>},
    Operation{"Desaturate", false, between_level<5, 10>, desaturated},
    Operation{"GaussianBlur", false, between_level<1, 20>, blurred},
    Operation{"GaussianBlurRand", false, between_level<0, 10>, blurred_randomly},
};

}  // namespace

const Operation& operation(std::string_view name) {
  const auto found = std::ranges::find(table, name, &Operation::name);
  expect(found != table.end(), "no operation on images is called {}", name);
  return *found;
}

}  // namespace lacuna::augment
