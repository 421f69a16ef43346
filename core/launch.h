// Rank and process count from the launcher (mpirun, srun, lacuna train --gpus), and the communication library, which is
// loaded only in a process that a launcher started.
#pragma once

#include "core/communicator.h"

#include <memory>
#include <string>

namespace lacuna {

/// The rank of this process among those that a launcher (mpirun, srun) started, read from the environment.
struct Launch {
  std::string launcher;  // such as `Open MPI`; empty: none
  int rank = 0, ranks = 1;
};
/// Throws an input error if the environment variables contradict each other.
Launch read_launch();

/// The communicator of this run; single_process for one process or without a launcher. May be opened once. While it
/// lives, a rank that stops responding, or does not join an operation within `timeout` seconds, ends all ranks.
std::unique_ptr<Communicator> open_ranks(double timeout);

/// The MPI library used under a launcher, or the reason why there is none, for `lacuna doctor`.
struct MpiLibrary {
  std::string file;     // liblacuna_mpi.so; empty: not found
  std::string version;  // as MPI reports it; empty: it cannot be loaded
  std::string problem;  // the problem and its remedy; empty: none
};
MpiLibrary find_mpi();

/// Names of the library's exported functions.
namespace mpi {
using Open = Communicator*(double timeout);
using Version = const char*();
inline constexpr const char* library = "liblacuna_mpi.so";
inline constexpr const char* open_symbol = "lacuna_mpi_open";
inline constexpr const char* version_symbol = "lacuna_mpi_version";
}  // namespace mpi

}  // namespace lacuna
