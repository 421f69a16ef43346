#include "core/file.h"

#include "core/error.h"
#include "core/system_error.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace lacuna {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// Whether an fsync error means that the file system does not support fsync for this kind of file, as CIFS and FUSE do
/// not for folders.
bool cannot_sync(int error) {
  return error == EINVAL || error == EBADF || error == ENOSYS || error == ENOTSUP || error == EOPNOTSUPP;
}

void sync(std::string_view what, const std::filesystem::path& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) reject("cannot open {} {}: {}", what, path.string(), last_system_error());
  const bool failed = ::fsync(descriptor) != 0 && !cannot_sync(errno);
  const std::string reason = last_system_error();
  ::close(descriptor);
  if (failed) reject("cannot write {} {}: {}", what, path.string(), reason);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  temporary_ = path_;
  temporary_ += fmt::format(".{}.tmp", getpid());
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) reject("cannot create {}: {}", path_.string(), last_system_error());
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::refuse(std::string_view action) const {
  const std::string reason = last_system_error();
  std::error_code ignored;
  reject("cannot {} {}: {}; {}", action, path_.string(), reason,
         std::filesystem::exists(path_, ignored) ? "the file that was there is unchanged" : "no file was left behind");
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const auto* next = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, bytes);
    if (written < 0) {
      if (errno == EINTR) continue;
      refuse("write");
    }
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0 && !cannot_sync(errno)) refuse("write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) refuse("replace");
  ::close(descriptor_);
  descriptor_ = -1;
  sync_folder(folder_of(path_));
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::filesystem::path make_folder_beside(const std::filesystem::path& folder) {
  const std::filesystem::path plain = folder.has_filename() ? folder : folder.parent_path();
  std::error_code failed;
  if (plain.has_parent_path()) std::filesystem::create_directories(plain.parent_path(), failed);
  for (int number = 0; !failed; ++number) {
    std::filesystem::path made = plain;
    made += fmt::format(".{}.{}.tmp", getpid(), number);
    if (std::filesystem::create_directory(made, failed)) return made;
  }
  reject("cannot create {}: {}", folder.string(), failed.message());
}

void sync_file(const std::filesystem::path& file) { sync("the file", file, O_RDONLY); }

void sync_folder(const std::filesystem::path& folder) { sync("the folder", folder, O_RDONLY | O_DIRECTORY); }

}  // namespace lacuna
