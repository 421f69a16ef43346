// The settings of the data set image_table that rows to predict follow.
#pragma once

namespace lacuna::picture_table {

inline constexpr const char *column = "image", *folder = "images", *extension = "extension";

}  // namespace lacuna::picture_table
