// The files below a folder or in tar archives, by index.
#pragma once

#include "data/files/input_file.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Files sorted by the bytes of their paths. A tar archive within a folder or an archive counts as a folder with the
/// archive's name without `.tar`. Names that begin with a dot, and those that systems leave behind (`Thumbs.db`,
/// `@eaDir`, `lost+found`), are skipped.
class FileTree {
 public:
  /// Lists a folder, following symbolic links, or a tar archive. Rejects cyclic and dangling links, unreadable folders,
  /// names that are not UTF-8, and everything that list_tar rejects.
  static std::shared_ptr<const FileTree> open(const std::filesystem::path& root);
  /// The same for several archives, each a folder below the root.
  static std::shared_ptr<const FileTree> of_archives(const std::vector<std::filesystem::path>& archives);

  std::int64_t size() const { return static_cast<std::int64_t>(ends_.size()); }
  /// Path of a file relative to the root, with `/` as separator.
  std::string_view path(std::int64_t file) const;
  /// Paths of all folders below the root, sorted by their bytes.
  const std::vector<std::string>& folders() const { return folders_; }
  /// The range [first, last) of files below a folder; an empty name is the root.
  std::pair<std::int64_t, std::int64_t> below(std::string_view folder) const;
  /// The index of the file with this path, or -1.
  std::int64_t find(std::string_view path) const;

  /// Members of archives that a later one of the same path replaces, as if the archive were unpacked.
  std::int64_t replaced() const { return replaced_; }
  /// The location of a file, for messages.
  std::string origin(std::int64_t file) const;
  /// Reads a file into the memory that `place` returns for its size. Rejects an unreadable file. Thread-safe.
  void read(std::int64_t file, const std::function<std::span<std::uint8_t>(std::int64_t bytes)>& place) const;
  /// Reads the first bytes of a file, up to the size of `out`, and returns them. Thread-safe.
  std::span<std::uint8_t> read_begin(std::int64_t file, std::span<std::uint8_t> out) const;
  /// Whether a file has these bytes anywhere, read in parts. Thread-safe.
  bool has_bytes(std::int64_t file, std::string_view bytes) const;
  /// Reads a file as text; rejects more than `most` bytes.
  std::string read_text(std::int64_t file, std::int64_t most = 1 << 20) const;

 private:
  class Scan;
  struct Member {
    std::int32_t archive;  // -1: a file on disk
    std::int64_t offset, bytes;
  };
  struct Place {
    InputFile file;
    std::int64_t offset, bytes;
  };
  Place place_of(std::int64_t file) const;

  std::filesystem::path root_;      // empty: several archives
  std::string paths_;               // concatenated paths
  std::vector<std::int64_t> ends_;  // [size]: end of each path in `paths_`
  std::vector<Member> members_;     // [size]; empty if all files are on disk
  std::vector<std::string> folders_;
  std::int64_t replaced_ = 0;
  std::vector<std::filesystem::path> archives_;
};

}  // namespace lacuna
