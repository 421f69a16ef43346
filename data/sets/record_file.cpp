#include "data/sets/record_file.h"

#include "core/error.h"
#include "core/system_error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace lacuna {

// Not blocking: a pipe would wait for a writer before it could be refused.
RecordFile::RecordFile(std::filesystem::path path, std::int64_t record_bytes)
    : path_(std::move(path)),
      record_bytes_(record_bytes),
      descriptor_(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) reject("{}: cannot be read: {}", path_.native(), last_system_error());
  struct stat status {};
  const bool regular = fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  records_ = status.st_size / record_bytes_;
  if (regular && records_ > 0 && status.st_size % record_bytes_ == 0) return;
  close(descriptor_);
  if (!regular) reject("{}: expected a file of records", path_.native());
  reject(
      "{}: expected a whole number of records of {} bytes, got {} bytes ({} records and {} bytes): "
      "the file is truncated or of another kind; fetch it again",
      path_.native(), record_bytes_, status.st_size, records_, status.st_size % record_bytes_);
}

RecordFile::~RecordFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

RecordFile::RecordFile(RecordFile&& other) noexcept
    : path_(std::move(other.path_)),
      record_bytes_(other.record_bytes_),
      records_(other.records_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

void RecordFile::read(std::int64_t first, std::span<std::uint8_t> out) const {
  auto offset = static_cast<off_t>(first * record_bytes_);
  while (!out.empty()) {
    const ssize_t got = pread(descriptor_, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("{}: reading failed at byte {}: {}", path_.native(), offset, last_system_error());
    if (got == 0) fail("{}: ends at byte {} now: it became shorter while it was in use", path_.native(), offset);
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

}  // namespace lacuna
