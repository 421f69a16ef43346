#include "apps/train/ranks.h"

#include "apps/config/resolve.h"
#include "apps/train/machine_costs.h"
#include "apps/train/planning.h"
#include "apps/train/run_record.h"
#include "core/backend.h"
#include "core/collectives.h"
#include "core/error.h"
#include "core/launch.h"
#include "core/parallel.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace lacuna::apps {
namespace {

/// How long other ranks leave it to rank 0 to report an error that all ranks meet, and to end them. Nothing can tell
/// them that it has: no collective operation can follow an error that perhaps one rank alone has met.
constexpr std::chrono::seconds rank_0_first{3};

void let_rank_0_tell(int rank) {
  if (rank > 0) std::this_thread::sleep_for(rank_0_first);
}

[[noreturn]] void end_all(Communicator& ranks, const std::string& message, ExitCode code) {
  let_rank_0_tell(ranks.rank());
  std::fputs(fmt::format("lacuna: rank {}: {}\n", ranks.rank(), message).c_str(), stderr);
  ranks.abort(code);
  std::_Exit(code);
}

/// The processors and GPUs that a rank has on its machine.
struct SeenByRank {
  std::string host;
  std::string processors;         // cpu_set_t
  std::vector<std::string> gpus;  // identities of those that it sees
};
void to_json(nlohmann::json& json, const SeenByRank& place) {
  json = {{"host", place.host},
          {"processors", std::vector<std::uint8_t>(place.processors.begin(), place.processors.end())},
          {"gpus", place.gpus}};
}
SeenByRank seen_in(const nlohmann::json& json) {
  const auto bytes = json.at("processors").get<std::vector<std::uint8_t>>();
  return {json.at("host"), {bytes.begin(), bytes.end()}, json.at("gpus")};
}

struct Machine {
  int ranks = 0;       // on this machine
  int processors = 1;  // of this rank: those that it may run on, shared with the ranks that may run on them too
  std::string name{};
  std::vector<std::vector<std::string>> gpus{};     // that each of its ranks sees
  int index = 0;                                    // of this rank among them
  bool all_see_gpus = true, some_see_gpus = false;  // of the ranks on all machines
};
Machine machine_of_rank(Communicator& ranks, bool with_gpus) {
  cpu_set_t set{};
  if (::sched_getaffinity(0, sizeof set, &set) != 0) std::memset(&set, 0xff, sizeof set);  // shared with all
  SeenByRank mine{.host = host_name(), .processors = std::string(sizeof set, '\0'), .gpus = {}};
  std::memcpy(mine.processors.data(), &set, sizeof set);
  if (with_gpus) mine.gpus = find_cuda_devices().identities;
  int sharing = 0;
  Machine machine{.name = mine.host};
  const std::vector<std::string> all = all_gather_texts(ranks, nlohmann::json(mine).dump());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const SeenByRank other = seen_in(nlohmann::json::parse(all[rank]));
    (other.gpus.empty() ? machine.all_see_gpus = false : machine.some_see_gpus = true);
    if (other.host != mine.host) continue;
    if (static_cast<int>(rank) == ranks.rank()) machine.index = machine.ranks;
    ++machine.ranks;
    machine.gpus.push_back(other.gpus);
    cpu_set_t theirs, both;
    std::memcpy(&theirs, other.processors.data(), sizeof theirs);
    CPU_AND(&both, &set, &theirs);
    sharing += CPU_COUNT(&both) > 0 ? 1 : 0;
  }
  machine.processors = std::max(1, processors() / std::max(sharing, 1));
  return machine;
}

/// The first line in which a text differs from another.
std::string first_difference(const std::string& text, const std::string& other) {
  std::istringstream lines(text), others(other);
  for (std::string line, there; std::getline(lines, line);) {
    std::getline(others, there);
    if (line != there) return line;
  }
  return {};
}

}  // namespace

ExitCode run_as_rank(double timeout, const std::function<ExitCode(Communicator& ranks)>& work) {
  const Launch launch = read_launch();
  if (launch.ranks == 1) return work(single_process());
  std::unique_ptr<Communicator> ranks;
  try {
    ranks = open_ranks(timeout);
  } catch (const Error&) {
    let_rank_0_tell(launch.rank);
    throw;
  }
  try {
    const ExitCode code = work(*ranks);
    ranks->describe("end");
    ranks->barrier();
    return code;
  } catch (const Error& error) {
    end_all(*ranks, error.what(), error.fault() == Fault::input ? wrong_input : run_failed);
  } catch (const std::bad_alloc&) {
    end_all(*ranks, "out of memory", run_failed);
  } catch (const std::exception& error) {
    end_all(*ranks, error.what(), run_failed);
  }
}

void on_each(Communicator& ranks, const std::function<void()>& f) {
  std::exception_ptr error;
  try {
    f();
  } catch (...) {
    error = std::current_exception();
  }
  const std::int64_t first = ranks.size() - largest_of_ranks(ranks, error ? ranks.size() - ranks.rank() : 0);
  if (first == ranks.size()) return;  // none failed
  if (first == ranks.rank()) std::rethrow_exception(error);
  ranks.describe("an error of another rank");
  ranks.barrier();  // the rank that failed never joins it, but ends all
  std::_Exit(run_failed);
}

Experiment as_rank(Experiment experiment, int rank, int count) {
  experiment.process.rank = rank;
  experiment.process.ranks = count;
  const Configuration::Train& train = experiment.train;
  const std::int64_t parts = count * train.accumulate;
  if (train.batch_size % parts != 0)
    reject(
        "train.batch_size: {} samples are those of all ranks together: expected a multiple of {}, for {} ranks that "
        "take train.accumulate ({}) micro-batches each",
        train.batch_size, parts, count, train.accumulate);
  return experiment;
}

int gpu_of_rank(const std::vector<std::vector<std::string>>& seen, int index, const std::string& machine) {
  std::vector<std::string> taken;
  int number = 0;
  for (int rank = 0; rank <= index; ++rank) {
    const std::vector<std::string>& own = seen[static_cast<std::size_t>(rank)];
    const auto free =
        std::ranges::find_if(own, [&](const std::string& gpu) { return std::ranges::find(taken, gpu) == taken.end(); });
    if (free == own.end())
      reject(
          "train.device: each rank takes a GPU of its own: {} ranks on {} see {} between them. Start as many ranks as "
          "there are GPUs, or show each rank one of its own (CUDA_VISIBLE_DEVICES, srun --gpus-per-task=1)",
          seen.size(), machine, taken.size());
    taken.push_back(*free);
    number = static_cast<int>(free - own.begin());
  }
  return number;
}

void join_gpus(const Experiment& experiment, Communicator& ranks) {
  if (ranks.size() == 1 || device_of(experiment).kind != DeviceKind::cuda) return;
  ranks.describe("joining the GPUs");
  const Device device = existing_device(experiment);
  device_ranks(device, ranks);
}

Experiment on_ranks(Experiment experiment, Communicator& ranks) {
  if (ranks.size() == 1) return experiment;
  ranks.describe("start");
  on_each(ranks, [&] {
    if (trains_on_features(experiment))
      reject("task.name: {} trains on cached features, which one process does: expected no launcher",
             experiment.task.name);
    experiment = as_rank(std::move(experiment), ranks.rank(), ranks.size());
  });
  Experiment same = experiment;
  same.train.threads = 0;  // machines may differ
  const std::vector<std::string> all = all_gather_texts(ranks, to_yaml(same));
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all.front())
      reject("the configuration of rank {} differs from that of rank 0: `{}`, expected `{}`", rank,
             first_difference(all[rank], all.front()), first_difference(all.front(), all[rank]));
  std::string& device = experiment.train.device;
  const Machine machine = machine_of_rank(ranks, device == "auto" || device.starts_with("cuda"));
  experiment.process.on_machine = machine.ranks;
  if (device == "auto") device = machine.some_see_gpus ? "cuda" : "cpu";
  on_each(ranks, [&] {
    if (device == "cuda" && machine.all_see_gpus)
      experiment.process.gpu = gpu_of_rank(machine.gpus, machine.index, machine.name);
  });
  std::int64_t& threads = experiment.train.threads;
  if (threads == 0 && std::getenv("OMP_NUM_THREADS") == nullptr) threads = machine.processors;
  return experiment;
}

void plan_memory_together(Setup& setup, Experiment& experiment, const std::filesystem::path& recorded,
                          Communicator& ranks) {
  if (ranks.size() == 1) return plan_memory(setup, experiment, machine_costs(), recorded);
  if (experiment.memory.policy != "auto") return;
  ranks.describe("memory plan");
  if (ranks.rank() == 0) plan_memory(setup, experiment, machine_costs(), recorded);
  const std::string plan = broadcast_text(ranks, ranks.rank() == 0 ? to_json(*experiment.plan) : "");
  if (ranks.rank() != 0) experiment.plan = parse_plan(plan, "the plan of rank 0");
}

}  // namespace lacuna::apps
