// Feature pyramids (Lin et al. 2017): maps of several strides with equal channels; each has the coarser ones added.
#pragma once

#include "models/image_model.h"
#include "nn/conv.h"

#include <memory>
#include <string_view>
#include <vector>

namespace lacuna {

/// The names of a pyramid's convolutions, with `{}` for the number of the map, and the initial values of their weights
/// [out, in, kernel, kernel]; biases are 0.
struct PyramidForm {
  std::string_view inner, outer;
  Init (*weight)(std::int64_t fan_in, std::int64_t fan_out);
};
extern const PyramidForm torchvision_pyramid, mmseg_pyramid;

/// 1×1 convolutions of the maps, each with the coarser sum added to it at its nearest pixels, and 3×3 convolutions
/// behind. Both have biases.
class FeaturePyramid final : public Module {
 public:
  FeaturePyramid(Module& parent, std::string_view name, const PyramidForm& form, const std::vector<MapShape>& maps,
                 std::int64_t channels);
  /// Maps [N, h, w, channels] of those given, from the finest on.
  std::vector<Variable> forward(std::vector<Variable> maps) const;

 private:
  std::vector<std::unique_ptr<nn::Conv2d>> inner_, outer_;
};

}  // namespace lacuna
