// Classes of the pixels of an image of any size, by a model of one size.
#pragma once

#include "core/tensor.h"
#include "data/image_size.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace lacuna {

/// How an image is shown to a model.
enum class Showing : std::uint8_t {
  squash,  // resized to the model's size
  fit,     // resized until it fits into the model's size, and padded at the bottom and right
  windows  // resized until its shorter sides are the model's; windows of the model's size overlap by a third
};

/// A part of a resized image that is shown to the model, whose size it has.
struct Window {
  std::int64_t top = 0, left = 0;
};

/// An image of size `image` as it is shown to a model of size `model`.
struct Shown {
  ImageSize image, model;
  ImageSize resized{};            // of the whole image
  std::vector<Window> windows{};  // of it, row by row

  Shown(ImageSize image, ImageSize model, Showing how);
};

/// The class of each pixel of the image, [H, W] as u8, or i32 for more than 256 classes, from the logits f32 of each
/// window, [windows, h, w, C]. One window's logits are resized to the image bilinearly; those of several are resized to
/// the model's size, averaged where windows overlap, and resized to the image. The outer pixels' corners meet (torch's
/// align_corners=False). No tensor of the image's size and all classes is held.
Tensor class_map(const Shown& shown, const Tensor& logits);

}  // namespace lacuna
