#include "data/segmentation/mask.h"

namespace lacuna {

SampleField mask_field(std::int64_t classes, std::int64_t height, std::int64_t width) {
  const bool is_wide = classes > ignored_pixel;
  return {.name = "mask",
          .kind = FieldKind::mask,
          .dtype = is_wide ? DType::i64 : DType::u8,
          .shape = {height, width},
          .padding = static_cast<double>(is_wide ? ignored_wide_pixel : ignored_pixel),
          .below = classes};
}

}  // namespace lacuna
