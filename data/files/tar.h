// Lists the members of tar archives with their offsets, so that they can be read in place.
#pragma once

#include "data/files/input_file.h"

#include <cstdint>
#include <functional>
#include <string>

namespace lacuna {

/// A file or folder in an archive. A file's content is bytes [offset, offset + bytes) of the archive.
struct TarMember {
  std::string path;  // UTF-8, without a leading `./` or `/` and without a trailing `/`
  std::int64_t offset = 0, bytes = 0;
  bool is_folder = false;
  std::string link_to{};  // target of a hard link, an earlier member; empty: not a link
};

/// Bytes [begin, begin + bytes) of a file.
struct FileRange {
  const InputFile& file;
  std::int64_t begin = 0, bytes = 0;
};

/// Calls `take` for each file and folder of an archive, in archive order. It reads only the headers. It supports ustar,
/// long names and sizes of GNU and pax, and hard links. It rejects files that are no tar archive, compressed and
/// truncated archives, sparse files, symbolic links, and names that are not UTF-8. `name` is the archive's name in
/// messages.
void list_tar(const FileRange& range, const std::string& name, const std::function<void(TarMember)>& take);

}  // namespace lacuna
