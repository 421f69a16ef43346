// A file of records of one length, read in place: the operating system's cache is the only copy in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace lacuna {

class RecordFile {
 public:
  /// Refuses a file that is missing, empty or not a whole number of records of `record_bytes`.
  RecordFile(std::filesystem::path path, std::int64_t record_bytes);
  ~RecordFile();
  RecordFile(RecordFile&& other) noexcept;
  RecordFile& operator=(RecordFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::int64_t records() const { return records_; }
  /// Fills `out` (u8 [n, record_bytes]) from record `first` on. Any thread may call it.
  void read(std::int64_t first, std::span<std::uint8_t> out) const;

 private:
  std::filesystem::path path_;
  std::int64_t record_bytes_;
  std::int64_t records_ = 0;
  int descriptor_ = -1;
};

}  // namespace lacuna
