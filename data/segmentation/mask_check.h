// The values that the masks of a data set hold, read before a run.
#pragma once

#include "data/segmentation/mask_layout.h"
#include "data/segmentation/mask_values.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna {

enum class MaskSize : std::uint8_t { same, resize };
std::array<std::pair<std::string_view, MaskSize>, 2> names_of(MaskSize);

/// Everything that reading the masks of a layout needs.
struct MaskReading {
  MaskLabels labels;
  MaskColors colors{};
  std::int64_t classes = 0;  // 0: as many as the masks that are read have
  MaskSize size = MaskSize::same;
};

/// The labels of a mask, in the size of its image, as `mask_field(classes)` has them: u8, or i64 for more than 255
/// classes, [height, width]. A value of no class, and without `resize` another size than the image's (as stored, or
/// turned by its EXIF orientation), throws DamagedSample.
/// `make`: memory for [height, width].
Tensor read_mask(const MaskReading& reading, std::span<const std::uint8_t> image, std::span<const std::uint8_t> mask,
                 const std::function<Tensor(const Shape& shape, DType dtype)>& make);

/// The values that some masks of a split hold.
struct MaskSurvey {
  std::vector<std::int64_t> pixels{};  // of each class
  std::int64_t ignored = 0;
  std::int64_t masks = 0;    // read
  std::int64_t turned = 0;   // fit their images only as the EXIF orientation turns them
  std::int64_t unclear = 0;  // fit images with an EXIF orientation both ways
};

/// Reads up to `most` pairs at equal distances. Rejects what read_mask does, with the file's name, and masks to learn
/// from that have one class alone besides ignored pixels. Without a number of classes there are as many as the largest
/// label asks for.
MaskSurvey survey(const MaskReading& reading, const MaskSplit& split, std::int64_t most, bool are_learned);

/// As `pixels of the classes in 50 masks: ...`.
std::string describe(const MaskSurvey& survey, const std::vector<std::string>& classes);

}  // namespace lacuna
