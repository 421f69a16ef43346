#include "data/text/json_list.h"

#include "core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace lacuna {
namespace {

/// The bytes of a file from a position on.
class BytesFrom {
 public:
  BytesFrom(const TextFile& file, std::int64_t at) : file_(file), next_block_(at) {
    std::error_code ignored;
    size_ = static_cast<std::int64_t>(std::filesystem::file_size(file.path(), ignored));
  }
  /// -1 at the end.
  int next() {
    if (in_block_ == block_.size()) {
      constexpr std::int64_t block_bytes = 4096;
      block_ = file_.part(next_block_, std::clamp<std::int64_t>(size_ - next_block_, 0, block_bytes));
      next_block_ += std::ssize(block_);
      in_block_ = 0;
      if (block_.empty()) return -1;
    }
    return static_cast<unsigned char>(block_[in_block_++]);
  }
  /// The first one that is no blank.
  int next_sign(std::int64_t& line) {
    for (;;) {
      const int c = next();
      if (c == '\n') ++line;
      if (c < 0 || std::string_view(" \t\r\n").find(static_cast<char>(c)) == std::string_view::npos) return c;
    }
  }
  /// The position behind the last one.
  std::int64_t at() const { return next_block_ - std::ssize(block_) + static_cast<std::int64_t>(in_block_); }

 private:
  const TextFile& file_;
  std::int64_t next_block_, size_ = 0;
  std::string block_{};
  std::size_t in_block_ = 0;
};

/// Behind a byte order mark.
int first_sign(BytesFrom& bytes, std::int64_t& line) {
  int c = bytes.next_sign(line);
  for (const int of_mark : {0xef, 0xbb, 0xbf})
    if (c == of_mark) c = bytes.next_sign(line);
  return c;
}

[[noreturn]] void refuse_sign(const TextFile& file, std::int64_t line, std::string_view expected, int c) {
  reject("{}:{}: expected {} in the list of objects, got {}", file.path().native(), line, expected,
         c < 0      ? "the end of the file"
         : c < 0x80 ? fmt::format("`{}`", static_cast<char>(c))
                    : "another sign");
}

}  // namespace

bool is_json_list(const TextFile& file) {
  BytesFrom bytes(file, 0);
  std::int64_t line = 1;
  return first_sign(bytes, line) == '[';
}

std::optional<JsonObject> next_in_list(const TextFile& file, std::int64_t& at, std::int64_t& line) {
  if (at < 0) return {};
  BytesFrom bytes(file, at);
  const bool is_first = at == 0;
  at = -1;  // also where the list is refused
  if (is_first) {
    line = 1;
    first_sign(bytes, line);
  }
  int c = bytes.next_sign(line);
  if (c == ']') {
    if (const int more = bytes.next_sign(line); more >= 0) refuse_sign(file, line, "nothing behind the `]`", more);
    return {};
  }
  if (!is_first && c != ',') refuse_sign(file, line, "a comma or `]` behind an object", c);
  if (!is_first) c = bytes.next_sign(line);
  if (c != '{') refuse_sign(file, line, "an object `{...}`", c);
  JsonObject object{bytes.at() - 1, 1, line};
  constexpr std::int64_t longest = std::int64_t{16} << 20;
  bool in_text = false;
  for (int depth = 1; depth > 0; ++object.bytes) {
    c = bytes.next();
    if (c < 0 || object.bytes == longest)
      reject("{}:{}: expected an object of {} bytes at most, got one that does not end", file.path().native(),
             object.line, longest);
    if (c == '\n') ++line;
    if (in_text && c == '\\') {
      bytes.next();
      ++object.bytes;
    } else if (c == '"') {
      in_text = !in_text;
    } else if (!in_text && (c == '{' || c == '[')) {
      ++depth;
    } else if (!in_text && (c == '}' || c == ']')) {
      --depth;
    }
  }
  at = bytes.at();
  return object;
}

}  // namespace lacuna
