// The files below a folder or in tar archives, by number.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Files in the order of their paths' bytes. A tar archive within a folder or an archive counts as a folder with the
/// name of the archive without `.tar`. Names that begin with a dot, and `__MACOSX`, are left out.
class FileTree {
 public:
  /// Lists a folder, whose links are followed, or a tar archive. Rejects a folder that contains itself through links,
  /// a link to nothing, folders that cannot be read, names that are not UTF-8, and what list_tar rejects. The same path
  /// is listed again only where a folder or an archive has changed since.
  static std::shared_ptr<const FileTree> open(const std::filesystem::path& root);
  /// The same of several archives, each a folder below the root.
  static std::shared_ptr<const FileTree> of_archives(const std::vector<std::filesystem::path>& archives);

  std::int64_t size() const { return static_cast<std::int64_t>(ends_.size()); }
  /// Path of a file below the root, with `/` between its parts.
  std::string_view path(std::int64_t file) const;
  /// Paths of all folders below the root, in the order of their bytes.
  const std::vector<std::string>& folders() const { return folders_; }
  /// The files [first, last) below a folder; an empty name stands for the root.
  std::pair<std::int64_t, std::int64_t> below(std::string_view folder) const;
  /// The number of the file with this path; -1: there is none.
  std::int64_t find(std::string_view path) const;

  /// The location of a file, for messages.
  std::string origin(std::int64_t file) const;
  /// The content of a file, into the memory that `place` gives for so many bytes. Any thread may call it. Rejects a
  /// file that cannot be read.
  void read(std::int64_t file, const std::function<std::span<std::uint8_t>(std::int64_t bytes)>& place) const;
  /// The same as text; rejects more than `most` bytes.
  std::string read_text(std::int64_t file, std::int64_t most = 1 << 20) const;

 private:
  class Scan;
  struct Member {
    std::int32_t archive;  // -1: a file on disk
    std::int64_t offset, bytes;
  };
  struct State {  // of a folder or an archive that was listed
    std::filesystem::path path;
    std::filesystem::file_time_type time;
    std::int64_t bytes;
  };
  bool is_current() const;

  std::filesystem::path root_;      // empty: several archives
  std::string paths_;               // one after another
  std::vector<std::int64_t> ends_;  // [size], of each path in `paths_`
  std::vector<Member> members_;     // [size]; empty where all files lie on disk
  std::vector<std::string> folders_;
  std::vector<std::filesystem::path> archives_;
  std::vector<State> listed_;
};

}  // namespace lacuna
