// Data sets of masks that are known by their files.
#pragma once

#include "data/segmentation/mask_layout.h"

namespace lacuna {

/// Cityscapes, of which masks hold ids.
MaskKind cityscapes_masks();
/// Pascal VOC.
MaskKind voc_masks();
/// ADE20K's 150 classes, by its `objectInfo150.txt`.
MaskKind ade20k_masks(const std::string& table, const std::string& file);

}  // namespace lacuna
