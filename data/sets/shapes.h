// The built-in data set: synthetic images of ten shapes, generated from a seed as they are read.
#pragma once

#include "data/dataset.h"

namespace lacuna {

/// One of ten bright shapes on a darker, shaded background, rotated by up to 23 degrees, in any colour, among fragments
/// and noise: only its outline identifies the class. Image `index` is a function of (seed, split, index, image size),
/// identical on every machine.
class Shapes final : public ImageDataset {
 public:
  explicit Shapes(const DatasetOptions& options);

  std::int64_t label(std::int64_t index) const override;
  std::int64_t read_image(std::int64_t index, std::uint8_t* image) const override;

 private:
  std::uint64_t seed_;
  Split split_;
};

}  // namespace lacuna
