// What the operating system says about memory: the machine's, and this process's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>

namespace lacuna {

/// Bytes of the machine that this process may use: control groups may allow less than there is.
std::int64_t physical_memory();
/// The most bytes this process could hold now: what it holds, and what the system can give without swapping.
std::int64_t available_memory();

/// Addresses that this process may still take under a limit on them (RLIMIT_AS, `ulimit -v`), in bytes; the largest
/// number where there is none.
std::int64_t address_space_left();

/// Largest resident size of this process so far, in bytes, as the operating system counts it.
std::int64_t process_peak();
/// Resident size now.
std::int64_t process_resident();

/// The lowest limit of the control groups that `groups` (as /proc/self/cgroup) names, and of those around them; `root`
/// is where they are mounted. The largest number where there is none.
std::int64_t control_group_limit(std::istream& groups, const std::filesystem::path& root);

}  // namespace lacuna
