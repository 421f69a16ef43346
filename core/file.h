// Files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace lacuna {

/// A file that is written beside its final place and moved there when all of it has reached the disk. Until `commit`
/// returns, whatever was there before stays as it was; without `commit` nothing is left behind.
class AtomicFile {
 public:
  /// Refuses a folder that does not exist or cannot be written.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  [[noreturn]] void refuse(std::string_view action) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view text);
/// Returns when the content of `file` has reached the disk.
void sync_file(const std::filesystem::path& file);
/// Returns when the names in `folder` have reached the disk.
void sync_folder(const std::filesystem::path& folder);

}  // namespace lacuna
