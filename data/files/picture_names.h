// Which files are pictures, by their names and, if those do not tell, by their first bytes.
#pragma once

#include "data/files/file_tree.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Extensions of the pictures that are read, for messages.
std::string picture_extensions();

/// Whether a name has a picture's extension, in upper or lower case, whether its format is read or not.
bool is_image_name(std::string_view name);

/// The format of a name's extension if it is one that is not read, as `TIFF`; empty otherwise.
std::string_view unread_format(std::string_view name);

/// Whether a name has no extension, or one that stands for no kind of file, as `IMG.2019.01`.
bool has_no_kind(std::string_view name);

/// The pictures of a tree, and the kinds of the files that are none.
struct PictureFiles {
  std::vector<bool> is_picture;               // [files]
  std::map<std::string, std::int64_t> kinds;  // of other files: number by extension

  /// Files without an extension count by their content. Rejects a picture of a format that is not read.
  static PictureFiles of(const FileTree& tree);
};

/// `3 files are left out (2 .txt, 1 .xml)`; empty if there are none.
std::string describe_left_out(const std::map<std::string, std::int64_t>& kinds);

}  // namespace lacuna
