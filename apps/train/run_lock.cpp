#include "apps/train/run_lock.h"

#include "core/error.h"
#include "core/system_error.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

namespace lacuna::apps {
namespace {

std::string holder(int descriptor) {
  char text[32];
  const ssize_t read = ::pread(descriptor, text, sizeof text, 0);
  if (read <= 1) return "another process";  // in the moment before it has written who it is
  const std::string_view number(text, static_cast<std::size_t>(read) - 1);
  int process = 0;
  std::from_chars(number.data(), number.data() + number.size(), process);
  // The one before may still stand there, in the same moment.
  return process > 0 && (::kill(process, 0) == 0 || errno == EPERM) ? fmt::format("process {}", process)
                                                                    : "another process";
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& folder, std::string_view doing) {
  const std::string path = (folder / "lock").string();
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) reject("cannot write into {}: {}: {}", folder.string(), path, last_system_error());
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      const std::string reason = fmt::format("{} {}", holder(descriptor_), doing);
      ::close(descriptor_);
      reject("{} cannot be written to: {}", folder.string(), reason);
    }
    // A file system without locks: Lustre without -o flock, NFS without lockd.
    std::fputs(fmt::format("lacuna: warning: cannot lock {}: {}; take care that no other process writes into {}\n",
                           path, last_system_error(), folder.string())
                   .c_str(),
               stderr);
  }
  // The file stays when the lock goes: removed, it could be locked twice, under its name and without one. What it says
  // only names the holder: a full disk may leave it empty.
  const std::string process = std::to_string(::getpid()) + "\n";
  if (::ftruncate(descriptor_, 0) == 0) [[maybe_unused]]
    const ssize_t ignored = ::pwrite(descriptor_, process.data(), process.size(), 0);
}

RunLock::~RunLock() { ::close(descriptor_); }

}  // namespace lacuna::apps
