#include "core/system_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace lacuna {
namespace {

/// The value in bytes of the line `name value kB` of a file under /proc; 0 if there is none.
std::int64_t bytes_in(const std::filesystem::path& file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string word; lines >> word;) {
    std::int64_t kib = 0;
    if (word == name && lines >> kib) return kib * 1024;
  }
  return 0;
}

/// The number in `file`; the largest number if the file contains none ("max") or cannot be read.
std::int64_t limit_in(const std::filesystem::path& file) {
  std::int64_t limit = 0;
  return std::ifstream(file) >> limit ? limit : std::numeric_limits<std::int64_t>::max();
}

struct GroupFiles {
  const char *limit, *usage, *reclaimable;  // `reclaimable`: a line of memory.stat
};
constexpr GroupFiles version1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles version2{"memory.max", "memory.current", "inactive_file"};

/// The lowest of `f(folder, files)` over the memory groups listed in `groups` and their parents.
template <class F>
std::int64_t lowest_of_groups(std::istream& groups, const std::filesystem::path& root, const F& f) {
  std::int64_t lowest = std::numeric_limits<std::int64_t>::max();
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();  // version 2: one tree for all controllers
    if (!unified && controllers != "memory") continue;
    const std::filesystem::path mount = unified ? root : root / "memory";
    const GroupFiles& files = unified ? version2 : version1;
    // In a container the path may be the host's and not exist here; then the group is the mount point.
    std::filesystem::path group = std::filesystem::path(line.substr(second + 1)).relative_path();
    for (; !group.empty(); group = group.parent_path()) lowest = std::min(lowest, f(mount / group, files));
    lowest = std::min(lowest, f(mount, files));
  }
  return lowest;
}

/// The number after the word `name`; 0 if there is none.
std::int64_t value_in(const std::filesystem::path& file, const std::string& name) {
  std::ifstream lines(file);
  std::int64_t value = 0;
  for (std::string word; lines >> word;)
    if (word == name && lines >> value) return value;
  return 0;
}

}  // namespace

std::int64_t control_group_limit(std::istream& groups, const std::filesystem::path& root) {
  return lowest_of_groups(groups, root, [](const std::filesystem::path& group, const GroupFiles& files) {
    return limit_in(group / files.limit);
  });
}

std::int64_t control_group_left(std::istream& groups, const std::filesystem::path& root) {
  return lowest_of_groups(groups, root, [](const std::filesystem::path& group, const GroupFiles& files) {
    constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
    const std::int64_t limit = limit_in(group / files.limit), usage = limit_in(group / files.usage);
    if (limit == none || usage == none) return limit;
    return std::max<std::int64_t>(limit - usage + value_in(group / "memory.stat", files.reclaimable), 0);
  });
}

std::int64_t physical_memory() {
  std::ifstream groups("/proc/self/cgroup");
  return std::min(static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE),
                  control_group_limit(groups, "/sys/fs/cgroup"));
}

std::int64_t free_memory() {
  std::ifstream groups("/proc/self/cgroup");
  const std::int64_t left = control_group_left(groups, "/sys/fs/cgroup");
  const std::int64_t free = bytes_in("/proc/meminfo", "MemAvailable:");
  return free == 0 ? std::min(left, physical_memory()) : std::min(left, free);
}

std::int64_t available_memory() { return std::min(physical_memory(), free_memory() + process_resident()); }

std::int64_t address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<std::int64_t>::max();
  return std::max<std::int64_t>(static_cast<std::int64_t>(limit.rlim_cur) - bytes_in("/proc/self/status", "VmSize:"),
                                0);
}

std::int64_t data_left() {
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    left = static_cast<std::int64_t>(limit.rlim_cur) - bytes_in("/proc/self/status", "VmData:");
  return std::max<std::int64_t>(std::min(left, commit_left("/proc")), 0);
}

std::int64_t commit_left(const std::filesystem::path& proc) {
  constexpr std::int64_t never_overcommit = 2;
  if (limit_in(proc / "sys/vm/overcommit_memory") != never_overcommit) return std::numeric_limits<std::int64_t>::max();
  return bytes_in(proc / "meminfo", "CommitLimit:") - bytes_in(proc / "meminfo", "Committed_AS:");
}

std::int64_t process_peak() { return bytes_in("/proc/self/status", "VmHWM:"); }
std::int64_t process_resident() { return bytes_in("/proc/self/status", "VmRSS:"); }

}  // namespace lacuna
