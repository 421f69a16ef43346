// Memory of the machine and of this process, as the operating system reports it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>

namespace lacuna {

/// Physical memory that this process may use, in bytes: at most the limit of its control groups.
std::int64_t physical_memory();
/// Bytes that this process could take now beside what it holds: what the system can give without swapping, and what
/// other processes leave of the limits of its control groups.
std::int64_t free_memory();
/// The same with what it holds: its resident size.
std::int64_t available_memory();

/// Bytes that a run takes beside its tensors after it is checked whether it fits: code that oneDNN generates, stacks,
/// small allocations, tables of pages, files that are being written. Measured: 16 to 20 MiB for transformers and
/// ResNets, up to 30 MiB where tensors are quantized by a plan.
constexpr std::int64_t growth_beside_tensors(int threads) {
  return (std::int64_t{32} << 20) + threads * (std::int64_t{256} << 10);
}

/// Address space that this process may still take under its limit (RLIMIT_AS, `ulimit -v`), in bytes; the largest
/// number if there is no limit.
std::int64_t address_space_left();

/// Writable private memory that this process may still map under its limit (RLIMIT_DATA, `ulimit -d`) and, where the
/// system does not overcommit (vm.overcommit_memory=2), under what it has left, in bytes; the largest number if there
/// is no limit.
std::int64_t data_left();
/// Bytes that a system without overcommit has left, from the files below `proc`; the largest number if the system
/// overcommits.
std::int64_t commit_left(const std::filesystem::path& proc);

/// Largest resident size of this process so far, in bytes, as the operating system counts it.
std::int64_t process_peak();
/// Resident size now.
std::int64_t process_resident();

/// Lowest memory limit of the control groups listed in `groups` (a file as /proc/self/cgroup) and of their parents.
/// `root`: their mount point. The largest number if there is no limit.
std::int64_t control_group_limit(std::istream& groups, const std::filesystem::path& root);
/// The least that one of them leaves: its limit, less what its processes hold, page cache that can be given up aside.
std::int64_t control_group_left(std::istream& groups, const std::filesystem::path& root);

}  // namespace lacuna
