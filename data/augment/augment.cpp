#include "data/augment/augment.h"

#include "core/error.h"
#include "core/schema_maps.h"
#include "data/augment/auto_augment.h"
#include "data/augment/color_jitter.h"
#include "data/augment/photometric.h"
#include "data/augment/random_erasing.h"

#include <algorithm>
#include <cmath>

namespace lacuna {

Fields AugmentOptions::fields() {
  using A = AugmentOptions;
  return {
      field("auto_augment", &A::auto_augment, augments,
            "timm's `--aa`: `rand-m9-mstd0.5-inc1` and other RandAugment strings, `original`, `originalr`, `v0`, `v0r` "
            "(AutoAugment), `3a` (3-Augment), `augmix-m5-w4-d2`; empty: none; see [data.md](data.md)"),
      field("color_jitter", &A::color_jitter, between(0, 10), or_one, augments,
            "strength of brightness, contrast and saturation jitter: one number, or three, or four with hue's last "
            "(0.5 at most); empty: none"),
      field("color_jitter_probability", &A::color_jitter_probability, up_to(1), augments,
            "probability of colour jitter"),
      field("force_color_jitter", &A::force_color_jitter, augments,
            "apply `color_jitter` together with an `auto_augment` other than `3a`"),
      field("photometric", &A::photometric, augments,
            "distort brightness, contrast, saturation and hue, as mmsegmentation's PhotoMetricDistortion does"),
      field("grayscale_probability", &A::grayscale_probability, up_to(1), augments,
            "probability of conversion to grayscale"),
      field("blur_probability", &A::blur_probability, up_to(1), augments,
            "probability of Gaussian blur, with a deviation of 0.1 to 2 pixels"),
      field("erase_probability", &A::erase_probability, up_to(1), augments,
            "probability of random erasing, after normalisation"),
      field("erase_mode", &A::erase_mode, one_of({"const", "rand", "pixel"}), augments,
            "fill of erased rectangles: zero, one random colour, or noise"),
      field("erase_count", &A::erase_count, between(1, 8), augments, "most rectangles to erase per image")};
}

}  // namespace lacuna

namespace lacuna::augment {

void check(const AugmentOptions& options) {
  check_values("data", options);
  const bool keeps_jitter = options.auto_augment.empty() || parse_policy(options.auto_augment).keeps_color_jitter;
  if (!options.color_jitter.empty()) ColorJitter(options.color_jitter, options.color_jitter_probability);
  if (!options.color_jitter.empty() && !keeps_jitter && !options.force_color_jitter)
    reject(
        "data.color_jitter: has no effect beside data.auto_augment: {} (as in timm); leave one of them out, or have "
        "both by data.force_color_jitter: true",
        options.auto_augment);
  if (options.force_color_jitter && (options.color_jitter.empty() || keeps_jitter))
    reject(
        "data.force_color_jitter: has no effect without data.color_jitter and a data.auto_augment that turns it off");
  if (options.color_jitter_probability != 1 && options.color_jitter.empty())
    reject("data.color_jitter_probability: has no effect without data.color_jitter");
  const AugmentOptions defaults;
  if (options.erase_probability == 0 &&
      (options.erase_mode != defaults.erase_mode || options.erase_count != defaults.erase_count))
    reject("data.erase_mode and data.erase_count have no effect without data.erase_probability");
}

Transforms before_normalization(const AugmentOptions& options, const std::vector<float>& mean,
                                Interpolation interpolation) {
  check(options);
  Transforms all;
  if (!options.auto_augment.empty()) {
    Surroundings surroundings;
    if (interpolation != Interpolation::random && interpolation != Interpolation::bilinear &&
        interpolation != Interpolation::bicubic)
      reject("data.auto_augment rotates by bilinear or bicubic: expected data.interpolation to be one of them or random, "
             "got {}",
             to_name(interpolation));
    if (interpolation != Interpolation::random)
      surroundings.filter = filter_of(interpolation);
    for (const float value : mean)  // Python's rounding: halves to even
      surroundings.fill.push_back(static_cast<std::uint8_t>(std::clamp(std::nearbyint(255.0 * value), 0.0, 255.0)));
    all.push_back(make_auto_augment(parse_policy(options.auto_augment), std::move(surroundings)));
  }
  if (!options.color_jitter.empty())
    all.push_back(std::make_shared<ColorJitter>(options.color_jitter, options.color_jitter_probability));
  if (options.photometric) all.push_back(std::make_shared<PhotometricDistortion>());
  if (options.grayscale_probability > 0)
    all.push_back(std::make_shared<RandomGrayscale>(options.grayscale_probability));
  if (options.blur_probability > 0) all.push_back(std::make_shared<RandomBlur>(options.blur_probability));
  return all;
}

Transforms after_normalization(const AugmentOptions& options) {
  if (options.erase_probability == 0) return {};
  return {
      std::make_shared<RandomErasing>(options.erase_probability, *erasing_of(options.erase_mode), options.erase_count)};
}

}  // namespace lacuna::augment
