// The colours of classes in pictures for people.
#pragma once

#include "core/tensor.h"
#include "data/images/png_file.h"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace lacuna {

/// Pascal VOC's colour of a class, which the bits of its number make.
Rgb class_color(std::int64_t number);

/// Writes classes u8 or i32 [H, W] as a palette of class_color, or from number 256 on as grey of 16 bits. `first`: the
/// value of class 0.
void write_classes(const std::filesystem::path& path, const Tensor& classes, std::int64_t first = 0);

/// The image u8 [H, W, 3] half covered by the colours of its classes u8, i32 or i64 [H, W]; classes `left_out` cover
/// nothing.
Tensor overlay(const Tensor& image, const Tensor& classes, std::int64_t left_out = -1);

struct ClassShare {
  std::int64_t number = 0;
  double share = 0;  // of the pixels
};
/// The classes in a map u8, i32 or i64 [H, W], the largest first.
std::vector<ClassShare> class_shares(const Tensor& classes);

}  // namespace lacuna
