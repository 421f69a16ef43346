// Text files read whole or line by line, with the place of everything for messages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace lacuna {

/// Content of a regular file. Refuses one that is missing or longer than `most` bytes; `what` names it.
std::string read_whole_file(const std::filesystem::path& path, std::string_view what, std::int64_t most);

/// The lines of a file, and any part of it read again later.
class TextFile {
 public:
  /// Refuses a file that is missing or no regular one. For the names of lines, `path` is used as it is given.
  explicit TextFile(std::filesystem::path path);
  ~TextFile();
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Goes back to the first line.
  void rewind();
  /// The next line without its end (`\n` or `\r\n`) and without a byte order mark; false at the end. Refuses lines of
  /// more than 16 MiB.
  bool next(std::string& line);
  /// The position and number (from 1) of the line that was read last; the position behind it.
  std::int64_t begin() const { return begin_; }
  std::int64_t line() const { return line_; }
  std::int64_t end() const { return position_; }
  /// The bytes [begin, begin + bytes). Any thread may call it.
  std::string part(std::int64_t begin, std::int64_t bytes) const;
  /// The number of the line at a position.
  std::int64_t line_at(std::int64_t position) const;

 private:
  std::size_t read(char* out, std::size_t bytes, std::int64_t at) const;

  std::filesystem::path path_;
  int descriptor_;
  std::string block_;           // read ahead
  std::size_t in_block_ = 0;    // of it, taken
  std::int64_t block_end_ = 0;  // position in the file behind the block
  std::int64_t position_ = 0, begin_ = 0, line_ = 0;
};

}  // namespace lacuna
