// The common base class of pixel transforms.
#pragma once

#include "core/error.h"
#include "data/augment/image_view.h"
#include "data/transforms.h"

#include <string>
#include <string_view>
#include <utility>

namespace lacuna::augment {

inline constexpr std::string_view images = "images";

/// A transform of `images` u8 [H, W, 1 or 3] that preserves their shape.
class PixelTransform : public Transform {
 public:
  explicit PixelTransform(std::string name) : name_(std::move(name)) {}

  SampleFields describe(SampleFields fields) const final {
    const SampleField& field = field_of(fields, images);
    const bool fits =
        field.dtype == DType::u8 && field.shape.rank() == 3 && (field.shape[2] == 1 || field.shape[2] == 3);
    if (!fits)
      reject("{} expects images u8 [H, W, 1 or 3], got {} {}", name_, lacuna::name_of(field.dtype), field.shape);
    return fields;
  }

 private:
  std::string name_;
};

}  // namespace lacuna::augment
