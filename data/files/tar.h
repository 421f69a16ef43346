// Tar archives: where each member lies, so that it can be read in place.
#pragma once

#include "data/files/input_file.h"

#include <cstdint>
#include <functional>
#include <string>

namespace lacuna {

/// A file or folder in an archive. The content of a file is bytes [offset, offset + bytes) of the archive.
struct TarMember {
  std::string path;  // in UTF-8, without `./` or `/` at its start and `/` at its end
  std::int64_t offset = 0, bytes = 0;
  bool is_folder = false;
  std::string link_to{};  // the member before this one that has the content of this hard link; empty: it has its own
};

/// Bytes [begin, begin + bytes) of a file.
struct FileRange {
  const InputFile& file;
  std::int64_t begin = 0, bytes = 0;
};

/// Calls `take` for the files and folders of an archive, in its order. Reads the headers only. Understands ustar, GNU's
/// and pax's long names and sizes, and hard links. Rejects other files, compressed and truncated
/// archives, sparse files, symbolic links, and names that are not UTF-8. `name` stands for the archive in messages.
void list_tar(const FileRange& range, const std::string& name, const std::function<void(TarMember)>& take);

}  // namespace lacuna
