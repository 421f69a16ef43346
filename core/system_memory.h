// Memory of the machine and of this process, as the operating system reports it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>

namespace lacuna {

/// Physical memory that this process may use, in bytes: at most the limit of its control groups.
std::int64_t physical_memory();
/// Bytes that this process could allocate in addition to its current memory: limited by the memory available without
/// swapping and by the unused part of its control groups' limits.
std::int64_t free_memory();
/// Free memory plus the resident size of this process.
std::int64_t available_memory();

/// Bytes that a run takes beside its tensors after the check that it fits: oneDNN's generated code, stacks, small
/// allocations, page tables, files being written. Measured: 16 to 20 MiB for transformers and ResNets, up to 30 MiB
/// with tensors quantized by a plan.
constexpr std::int64_t growth_beside_tensors(int threads) {
  return (std::int64_t{32} << 20) + threads * (std::int64_t{256} << 10);
}

/// Bytes of a GPU's memory that the driver's context and NVIDIA's libraries take, beside tensors.
inline constexpr std::int64_t card_beside_tensors = std::int64_t{768} << 20;

/// Address space that this process may still take under its limit (RLIMIT_AS, `ulimit -v`), in bytes; the largest
/// number if there is no limit.
std::int64_t address_space_left();

/// Writable private memory that this process may still map, in bytes, under its limit (RLIMIT_DATA, `ulimit -d`) and
/// the system's commit limit if it does not overcommit (vm.overcommit_memory=2); the largest number if there is no
/// limit.
std::int64_t data_left();
/// Bytes that a system without overcommit has left, from the files below `proc`; the largest number if the system
/// overcommits.
std::int64_t commit_left(const std::filesystem::path& proc);

/// Largest resident size of this process so far, in bytes, as the operating system counts it.
std::int64_t process_peak();
/// Current resident size of this process, in bytes.
std::int64_t process_resident();

/// The lowest memory limit of the control groups listed in `groups` (in the format of /proc/self/cgroup) and of their
/// parents; the largest number if there is no limit. `root`: the mount point of the control groups.
std::int64_t control_group_limit(std::istream& groups, const std::filesystem::path& root);
/// The minimum over these control groups of the limit minus the usage, reclaimable page cache excluded.
std::int64_t control_group_left(std::istream& groups, const std::filesystem::path& root);

}  // namespace lacuna
