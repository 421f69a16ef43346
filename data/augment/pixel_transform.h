// The common base class of pixel transforms.
#pragma once

#include "core/error.h"
#include "data/augment/image_view.h"
#include "data/transforms.h"

#include <string>
#include <string_view>
#include <utility>

namespace lacuna::augment {

/// A transform of images u8 [H, W, 1 or 3] that preserves their shape.
class PixelTransform : public Transform {
 public:
  explicit PixelTransform(std::string name) : name_(std::move(name)) {}

  SampleField describe(SampleField image) const final {
    const Shape& shape = image.shape;
    const bool fits = image.dtype == DType::u8 && shape.rank() == 3 && (shape[2] == 1 || shape[2] == 3);
    if (!fits) reject("{} expects images u8 [H, W, 1 or 3], got {} {}", name_, lacuna::name_of(image.dtype), shape);
    return image;
  }

 private:
  std::string name_;
};

}  // namespace lacuna::augment
