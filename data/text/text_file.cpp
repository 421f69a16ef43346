#include "data/text/text_file.h"

#include "core/error.h"
#include "core/system_error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lacuna {
namespace {

constexpr std::size_t block_bytes = 1U << 16U, longest_line = 16U << 20U;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

}  // namespace

std::string read_whole_file(const std::filesystem::path& path, std::string_view what, std::int64_t most) {
  const TextFile file(path);
  std::error_code ignored;
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path, ignored));
  if (bytes > most) reject("{}: expected a {} of {} bytes at most, got {}", path.native(), what, most, bytes);
  std::string text = file.part(0, bytes);
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  return text;
}

// Non-blocking, because opening a pipe would wait for a writer before it could be rejected.
TextFile::TextFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) reject("{}: cannot be read: {}", path_.native(), last_system_error());
  struct stat status {};
  if (fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) return;
  close(descriptor_);
  reject("{}: expected a file", path_.native());
}

TextFile::~TextFile() { close(descriptor_); }

std::size_t TextFile::read(char* out, std::size_t bytes, std::int64_t at) const {
  std::size_t all = 0;
  while (all < bytes) {
    const ssize_t got = pread(descriptor_, out + all, bytes - all, at + static_cast<std::int64_t>(all));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("{}: reading failed at byte {}: {}", path_.native(), at, last_system_error());
    if (got == 0) break;
    all += static_cast<std::size_t>(got);
  }
  return all;
}

std::string TextFile::part(std::int64_t begin, std::int64_t bytes) const {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  if (read(text.data(), text.size(), begin) != text.size())
    fail("{}: ends before byte {} now: it became shorter while it was in use", path_.native(), begin + bytes);
  return text;
}

void TextFile::rewind() {
  block_.clear();
  in_block_ = 0;
  block_end_ = position_ = begin_ = line_ = 0;
}

bool TextFile::next(std::string& line) {
  line.clear();
  begin_ = position_;
  for (;;) {
    if (in_block_ == block_.size()) {
      block_.resize(block_bytes);
      block_.resize(read(block_.data(), block_bytes, block_end_));
      block_end_ += std::ssize(block_);
      in_block_ = 0;
      if (block_.empty() && line.empty() && position_ == begin_) return false;
      if (block_.empty()) break;
    }
    const std::size_t found = block_.find('\n', in_block_), end = std::min(found, block_.size());
    line.append(block_, in_block_, end - in_block_);
    position_ += static_cast<std::int64_t>(end - in_block_);
    in_block_ = end;
    if (line.size() > longest_line)
      reject("{}:{}: expected lines of {} bytes at most: no text file?", path_.native(), line_ + 1, longest_line);
    if (found != std::string::npos) {
      ++position_;
      ++in_block_;
      break;
    }
  }
  ++line_;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  if (line_ == 1 && line.starts_with(byte_order_mark)) line.erase(0, byte_order_mark.size());
  return true;
}

std::int64_t TextFile::line_at(std::int64_t position) const {
  std::string block(block_bytes, '\0');
  std::int64_t line = 1;
  for (std::int64_t at = 0; at < position;) {
    const auto wanted = static_cast<std::size_t>(std::min<std::int64_t>(block_bytes, position - at));
    const std::size_t got = read(block.data(), wanted, at);
    if (got == 0) break;
    line += std::count(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(got), '\n');
    at += static_cast<std::int64_t>(got);
  }
  return line;
}

}  // namespace lacuna
