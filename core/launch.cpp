#include "core/launch.h"

#include "core/error.h"
#include "core/library_folder.h"
#include "core/local_ranks.h"

#include <dlfcn.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

namespace lacuna {
namespace {

constexpr std::string_view own_launcher = "lacuna train --gpus";

struct Launcher {
  std::string_view name;
  const char *rank, *ranks;  // names of environment variables
};
/// Known launchers, inner ones first, since srun may start mpirun, and a script of its job `lacuna train --gpus`. The
/// SLURM variables are those of a job step; a batch script has different ones.
constexpr std::array launchers{Launcher{own_launcher, local_rank, local_ranks},
                               Launcher{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                               Launcher{"MPICH", "PMI_RANK", "PMI_SIZE"},
                               Launcher{"SLURM", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};

std::optional<int> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return {};
  const std::string_view digits(text);
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0)
    reject("{}: expected a whole number, as a launcher sets it, got {}", variable, digits);
  return number;
}

/// The MPI library's path, next to liblacuna.
std::filesystem::path library_file() {
  std::error_code failed;
  const std::filesystem::path file = library_folder() / mpi::library;
  return std::filesystem::exists(file, failed) ? file : std::filesystem::path();
}

constexpr const char* how_to_build =
    "this Lacuna was built without MPI: install one (on Debian libopenmpi-dev and openmpi-bin), run cmake and build "
    "again";

/// Loads a library with RTLD_GLOBAL, since Open MPI's plugins look up symbols of its library in the global scope.
void* load(const std::filesystem::path& file) { return ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL); }

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

Launch read_launch() {
  for (const Launcher& launcher : launchers) {
    const std::optional<int> rank = number_in(launcher.rank), ranks = number_in(launcher.ranks);
    if (!rank || !ranks || *ranks <= 1) continue;
    if (*rank >= *ranks)
      reject("{} is {} and {} is {}: expected a rank below the number of ranks", launcher.rank, *rank, launcher.ranks,
             *ranks);
    return {std::string(launcher.name), *rank, *ranks};
  }
  return {};
}

MpiLibrary find_mpi() {
  MpiLibrary found;
  found.file = library_file().string();
  if (found.file.empty()) {
    found.problem = how_to_build;
    return found;
  }
  void* const library = load(found.file);
  const auto version = library == nullptr ? nullptr : symbol<mpi::Version>(library, mpi::version_symbol);
  if (version == nullptr)
    found.problem = ::dlerror();
  else
    found.version = version();
  return found;
}

std::unique_ptr<Communicator> open_ranks(double timeout) {
  const Launch launch = read_launch();
  if (launch.ranks == 1) return single_process().duplicate();
  if (launch.launcher == own_launcher) {
    const char* const folder = std::getenv(local_folder);
    if (folder == nullptr)
      reject("{}: expected the folder in which the ranks meet, since {} is set", local_folder, local_rank);
    return join_local_ranks(folder, launch.rank, launch.ranks, timeout);
  }
  const std::filesystem::path file = library_file();
  if (file.empty()) reject("{} started {} processes, and {}", launch.launcher, launch.ranks, how_to_build);
  void* const library = load(file);
  if (library == nullptr) reject("{} started {} processes, and {}", launch.launcher, launch.ranks, ::dlerror());
  const auto open = symbol<mpi::Open>(library, mpi::open_symbol);
  expect(open != nullptr, "{} is of another version of Lacuna", file.string());
  std::unique_ptr<Communicator> ranks(open(timeout));
  if (ranks->size() != launch.ranks) {
    const std::string version = find_mpi().version;
    ranks.reset();
    reject(
        "{} started {} processes, and the MPI library of this build, {}, finds itself in a run of one: the launcher is "
        "of another MPI. Start with the launcher of that library (on Debian mpirun.openmpi or mpirun.mpich; srun needs "
        "--mpi=pmix), or build with the other MPI",
        launch.launcher, launch.ranks, version);
  }
  return ranks;
}

}  // namespace lacuna
