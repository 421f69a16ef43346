// Rank and process count from the launcher (mpirun, srun), and the communication library, which is loaded only in a
// process that a launcher started.
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

/// The MPI library that is used under a launcher, or the reason why there is none, for `lacuna doctor`.
struct MpiLibrary {
  std::string file;     // liblacuna_mpi.so; empty: not found
  std::string version;  // of MPI, in its own words; empty: it cannot be loaded
  std::string problem;  // what to do; empty: nothing
};
MpiLibrary find_mpi();

/// The exports of the library.
namespace mpi {
using Open = Communicator*(double timeout);
using Version = const char*();
inline constexpr const char* library = "liblacuna_mpi.so";
inline constexpr const char* open_symbol = "lacuna_mpi_open";
inline constexpr const char* version_symbol = "lacuna_mpi_version";
}  // namespace mpi

}  // namespace lacuna
