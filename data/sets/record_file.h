// A file of fixed-length records, read in place: only the operating system's cache holds it in memory.
#pragma once

#include "data/files/input_file.h"

namespace lacuna {

class RecordFile {
 public:
  /// Rejects a file that is missing, empty or not a whole number of records of `record_bytes`.
  RecordFile(std::filesystem::path path, std::int64_t record_bytes);

  const std::filesystem::path& path() const { return file_.path(); }
  std::int64_t records() const { return file_.size() / record_bytes_; }
  /// Fills `out` (u8 [n, record_bytes]) from record `first` on. Thread-safe.
  void read(std::int64_t first, std::span<std::uint8_t> out) const { file_.read(first * record_bytes_, out); }

 private:
  InputFile file_;
  std::int64_t record_bytes_;
};

}  // namespace lacuna
