// Files that are written atomically.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace lacuna {

/// A file that is written under a temporary name and renamed when its content has reached the disk. Until `commit`
/// returns, a former file of this name stays unchanged; without `commit`, nothing is left behind.
class AtomicFile {
 public:
  /// Rejects a folder that does not exist or is not writable.
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
/// Creates a folder with an unused name beside `folder`, `folder.PROCESS.NUMBER.tmp`, and the folders above it.
std::filesystem::path make_folder_beside(const std::filesystem::path& folder);
/// Waits until the content of `file` has reached the disk.
void sync_file(const std::filesystem::path& file);
/// Waits until the entries of `folder` have reached the disk.
void sync_folder(const std::filesystem::path& folder);

}  // namespace lacuna
