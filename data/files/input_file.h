// Random-access reads of a file. The file is not mapped, since mapped pages would count as the process's memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace lacuna {

class InputFile {
 public:
  /// Rejects a path that is missing, unreadable or no regular file.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Size in bytes when the file was opened.
  std::int64_t size() const { return size_; }
  /// Fills `out` from byte `offset` on. Throws if the file is too short. Thread-safe.
  void read(std::int64_t offset, std::span<std::uint8_t> out) const;

 private:
  std::filesystem::path path_;
  std::int64_t size_ = 0;
  int descriptor_ = -1;
};

/// The content of a file without a byte order mark. Rejects a file of more than `most` bytes.
std::string read_text(const std::filesystem::path& path, std::int64_t most);

}  // namespace lacuna
