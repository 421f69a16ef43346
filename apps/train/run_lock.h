// A folder of results has one writer at a time.
#pragma once

#include <filesystem>
#include <string_view>

namespace lacuna::apps {

/// Held while a process writes a run or a sweep into a folder. The system gives it up when the process ends, however it
/// does, so that nothing has to be unlocked by hand.
class RunLock {
 public:
  /// Refuses a folder that another process holds, and names that process; warns where the file system has no locks.
  /// `doing`: what a holder does, in words.
  explicit RunLock(const std::filesystem::path& folder, std::string_view doing = "trains into it");
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace lacuna::apps
