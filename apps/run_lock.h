// A run folder has one writer at a time.
#pragma once

#include <filesystem>

namespace lacuna::apps {

/// Held while a process trains into a folder. The system gives it up when the process ends, however it does, so that no
/// run has to be unlocked by hand.
class RunLock {
 public:
  /// Refuses a folder that another process trains into, and names that process.
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace lacuna::apps
