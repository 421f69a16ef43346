// Training in several processes: what the commands do together.
#pragma once

#include "apps/command.h"
#include "apps/config/experiment.h"
#include "core/communicator.h"

#include <filesystem>
#include <functional>

namespace lacuna::apps {

class Setup;

/// Runs `work` with the ranks that a launcher started, or alone. An error of one rank is told with its number and ends
/// all of them. `timeout`: see open_ranks.
ExitCode run_as_rank(double timeout, const std::function<ExitCode(Communicator& ranks)>& work);

/// Starts `count` ranks of this command on this machine, waits for them and ends with the exit code of the first that
/// failed, which ends the others. Returns in a rank, and for a count of 1.
void start_ranks(int count);

/// Runs `f`, which calls no collective operation, on all ranks. If it throws on some of them, the first one tells of
/// its error, and the others wait for their end.
void on_each(Communicator& ranks, const std::function<void()>& f);

/// The configuration of rank `rank` of `count`. Refuses batches that they cannot share.
Experiment as_rank(Experiment experiment, int rank, int count);

/// The same for this rank. Without train.threads and OMP_NUM_THREADS, the ranks on a machine
/// share its processors. Refuses a configuration that differs among them.
Experiment on_ranks(Experiment experiment, Communicator& ranks);

/// As plan_memory; of several ranks rank 0 plans, and all have its plan.
void plan_memory_together(Setup& setup, Experiment& experiment, const std::filesystem::path& recorded,
                          Communicator& ranks);

/// The GPU that a rank takes, by its number among those that it sees: the first that no rank before it on the machine
/// takes. seen[r]: identities of the GPUs that rank r of the machine sees: all, or one each. Too few are the input's
/// fault.
int gpu_of_rank(const std::vector<std::vector<std::string>>& seen, int index, const std::string& machine);

/// Joins the GPUs of several ranks, before the first tensor: the library's buffers come first. Collective.
void join_gpus(const Experiment& experiment, Communicator& ranks);

}  // namespace lacuna::apps
