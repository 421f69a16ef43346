// What a launcher of many processes says of this one, and the library with which they talk to each other. Nothing of it
// is loaded in a process that no launcher started.
#pragma once

#include "core/communicator.h"

#include <memory>
#include <string>

namespace lacuna {

/// The place of this process among those that mpirun, srun or another launcher started, as the environment tells it.
struct Launch {
  std::string launcher;  // as `Open MPI`; empty: none
  int rank = 0, ranks = 1;
};
/// An environment that contradicts itself is the input's fault.
Launch read_launch();

/// The ranks of this run; of one process that no launcher started, or alone, single_process. To be opened once. While
/// it lives, a rank that stops to answer, or does not take part in an operation for `timeout` seconds, ends all of
/// them.
std::unique_ptr<Communicator> open_ranks(double timeout);

/// What `lacuna doctor` says: the MPI library that is used under a launcher, or why there is none.
struct MpiLibrary {
  std::string file;     // liblacuna_mpi.so; empty: not found
  std::string version;  // of MPI, in its own words; empty: it cannot be loaded
  std::string problem;  // what to do; empty: nothing
};
MpiLibrary find_mpi();

/// What the library exports.
namespace mpi {
using Open = Communicator*(double timeout);
using Version = const char*();
inline constexpr const char* library = "liblacuna_mpi.so";
inline constexpr const char* open_symbol = "lacuna_mpi_open";
inline constexpr const char* version_symbol = "lacuna_mpi_version";
}  // namespace mpi

}  // namespace lacuna
