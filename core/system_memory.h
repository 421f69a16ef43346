// Memory of the machine and of this process, as the operating system reports it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>

namespace lacuna {

/// Physical memory that this process may use, in bytes: at most the limit of its control groups.
std::int64_t physical_memory();
/// Bytes that this process could hold now: its resident size plus what the system can give without swapping.
std::int64_t available_memory();

/// Address space that this process may still take under its limit (RLIMIT_AS, `ulimit -v`), in bytes; the largest
/// number if there is no limit.
std::int64_t address_space_left();

/// Largest resident size of this process so far, in bytes, as the operating system counts it.
std::int64_t process_peak();
/// Resident size now.
std::int64_t process_resident();

/// Lowest memory limit of the control groups listed in `groups` (a file as /proc/self/cgroup) and of their parents.
/// `root`: their mount point. The largest number if there is no limit.
std::int64_t control_group_limit(std::istream& groups, const std::filesystem::path& root);

}  // namespace lacuna
