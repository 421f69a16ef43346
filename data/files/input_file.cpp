#include "data/files/input_file.h"

#include "core/error.h"
#include "core/system_error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace lacuna {

// Non-blocking, because opening a pipe would wait for a writer before it could be rejected.
InputFile::InputFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) reject("{}: cannot be read: {}", path_.native(), last_system_error());
  struct stat status {};
  if (fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) {
    size_ = status.st_size;
    return;
  }
  close(descriptor_);
  reject("{}: expected a regular file", path_.native());
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), size_(other.size_), descriptor_(std::exchange(other.descriptor_, -1)) {}

void InputFile::read(std::int64_t offset, std::span<std::uint8_t> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(descriptor_, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("{}: reading failed at byte {}: {}", path_.native(), offset, last_system_error());
    if (got == 0) fail("{}: ends at byte {} now: it became shorter while it was in use", path_.native(), offset);
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

std::string read_text(const std::filesystem::path& path, std::int64_t most) {
  const InputFile file(path);
  if (file.size() > most) reject("{}: expected a file of {} bytes at most, got {}", path.native(), most, file.size());
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  return text;
}

}  // namespace lacuna
