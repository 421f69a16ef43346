// Text files read whole or line by line, with positions for error messages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace lacuna {

/// The content of a regular file. Rejects a file that is missing or longer than `most` bytes; `what` names it in
/// messages.
std::string read_whole_file(const std::filesystem::path& path, std::string_view what, std::int64_t most);

/// Reads a file line by line, and any part of it again later.
class TextFile {
 public:
  /// Rejects a file that is missing or not regular. Messages show `path` as given.
  explicit TextFile(std::filesystem::path path);
  ~TextFile();
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Goes back to the first line.
  void rewind();
  /// Reads the next line without its end (`\n` or `\r\n`) and without a byte order mark; returns false at the end of
  /// the file. Rejects lines of more than 16 MiB.
  bool next(std::string& line);
  /// The position and number (from 1) of the last line read, and the position after it.
  std::int64_t begin() const { return begin_; }
  std::int64_t line() const { return line_; }
  std::int64_t end() const { return position_; }
  /// The bytes [begin, begin + bytes) of the file. Thread-safe.
  std::string part(std::int64_t begin, std::int64_t bytes) const;
  /// The number of the line at a position.
  std::int64_t line_at(std::int64_t position) const;

 private:
  std::size_t read(char* out, std::size_t bytes, std::int64_t at) const;

  std::filesystem::path path_;
  int descriptor_;
  std::string block_;           // read-ahead buffer
  std::size_t in_block_ = 0;    // bytes of the block consumed
  std::int64_t block_end_ = 0;  // position in the file after the block
  std::int64_t position_ = 0, begin_ = 0, line_ = 0;
};

}  // namespace lacuna
