// Images as a model wants them: what its weights were trained with.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

struct ImagePreparation {
  std::vector<double> mean{}, std{};  // of each channel, values from 0 to 1; empty: not said
  std::string interpolation{};        // as in `bicubic`; empty: not said
  double crop_pct = 0;                // the image's share of the side that it is resized to; 0: not said
  std::string crop_mode{};            // `center`, `border`, or `squash`: resized to the image's size whatever its sides
};

/// Floats as the shortest decimal numbers that name them: 0.4914, not the double of the nearest float.
inline std::vector<double> as_written(const std::vector<float>& values) {
  std::vector<double> numbers;
  for (const float value : values) {
    char text[32];
    const char* const end = std::to_chars(text, text + sizeof(text), value).ptr;
    std::from_chars(text, end, numbers.emplace_back());
  }
  return numbers;
}

// As timm's pretrained_cfg has them (timm/data/constants.py). A preset's are those of its default tag.

/// Mean and deviation of ImageNet.
inline ImagePreparation imagenet_images(double crop_pct, std::string_view interpolation = "bicubic") {
  return {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}, std::string(interpolation), crop_pct, "center"};
}
/// Values from -1 to 1, as the ViTs of the AugReg paper have them.
inline ImagePreparation inception_images(double crop_pct) {
  return {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}, "bicubic", crop_pct, "center"};
}
/// Mean and deviation of OpenAI's CLIP.
inline ImagePreparation clip_images(double crop_pct) {
  return {{0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}, "bicubic", crop_pct, "center"};
}

}  // namespace lacuna
