// lacuna train: trains or fine-tunes; writes a run folder.
#include "apps/command.h"
#include "apps/config/assignment.h"
#include "apps/config/configuration_options.h"
#include "apps/config/resolve.h"
#include "apps/config/yaml.h"
#include "apps/output/output.h"
#include "apps/train/crowding.h"
#include "apps/train/fit.h"
#include "apps/train/held_out.h"
#include "apps/train/interrupt.h"
#include "apps/train/planning.h"
#include "apps/train/ranks.h"
#include "apps/train/run.h"
#include "apps/train/settle.h"
#include "core/collectives.h"
#include "core/parallel.h"
#include "core/system_error.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;

class Train {
 public:
  explicit Train(CLI::App& app) {
    configuration_.declare(app, false);
    app.add_option(
           "--resume", resumed_,
           "continue the run in this folder from its latest checkpoint, or from RUN/checkpoints/step-… (later ones "
           "are removed); -c replaces its configuration")
        ->type_name("RUN");
    app.add_option("--gpus", gpus_, "train on so many GPUs of this machine: starts a process for each")
        ->check(CLI::Range(1, max_devices))
        ->type_name("N");
    app.add_flag("--overwrite", overwrite_, "replace the run that the folder holds");
    app.add_option(
           "--rank-timeout", rank_timeout_,
           "seconds that ranks wait for one that lives, with several processes under mpirun or srun; then all end")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_flag("--rank-logs", rank_logs_,
                 "with several processes, each but the first writes its lines into RUN/rank-N.log");
    report_.declare(app);
  }

  ExitCode operator()() const {
    if (!configuration_.given() && configuration_.overrides().empty() && resumed_.empty())
      reject("expected -c CONFIG, key=value or both, or --resume RUN");
    if (overwrite_ && !resumed_.empty()) reject("--overwrite begins anew and --resume goes on: expected one of them");
    if (gpus_ > 0) {
      if (const CudaDevices found = find_cuda_devices(); found.names.empty())
        reject("--gpus {}: {}", gpus_, found.problem);
      start_ranks(gpus_);
    }
    const InterruptGuard guard;  // from here on: reading data and building a model may take a while
    return run_as_rank(rank_timeout_, [&](Communicator& ranks) {
      if (ranks.rank() > 0) silence_warnings();
      const int signal = resumed_.empty() ? begin(ranks) : go_on(ranks);
      return signal == 0 ? 0 : 128 + signal;
    });
  }

 private:
  int begin(Communicator& ranks) const {
    Experiment experiment = configuration_.parse();
    std::unique_ptr<Setup> planned = ready(experiment, {}, ranks);
    return with_advice_when_exhausted(experiment, true, [&] {
      const File stream = open_stream(experiment.output.dir, ranks);
      // Everything the configuration can have wrong is found before the folder is touched.
      Run training_run(experiment, std::move(planned), {}, stream.get(), ranks);
      if (ranks.rank() > 0) return training_run.run_beside();
      return run(training_run, RunFolder::create(experiment.output.dir, overwrite_));
    });
  }

  int go_on(Communicator& ranks) const {
    const CheckpointPath point = checkpoint_path(resumed_);
    const RunFolder folder = ranks.rank() == 0 ? RunFolder::open_to_resume(point.run) : RunFolder::open(point.run);
    std::optional<fs::path> checkpoint =
        point.checkpoint.empty() ? folder.newest() : folder.checkpoint(point.checkpoint);
    if (ranks.size() > 1) {
      const std::string chosen = broadcast_text(ranks, checkpoint ? checkpoint->string() : "");
      checkpoint = chosen.empty() ? std::nullopt : std::optional(fs::path(chosen));
    }
    Experiment experiment = configuration_.given()
                                ? configuration_.parse()
                                : read_configuration(folder.configuration(), configuration_.overrides());
    std::error_code failed;
    for (const std::string& change : configuration_.overrides())
      if (sets(change, "output", "dir") && !fs::equivalent(experiment.output.dir, point.run, failed))
        reject("{}: a resumed run stays in its folder, {}", change, point.run.string());
    if (const std::string changed = follow_held_out(point.run, false, experiment).warning;
        !changed.empty() && ranks.rank() == 0)
      print_error(fmt::format("lacuna: warning: {}\n", changed));
    experiment.output.dir = point.run.string();
    // The file that it began with may be gone. Planning and cached features need weights before the checkpoint is
    // read. An adapter's base is no part of it, and a damaged one is refused once it is read.
    if (checkpoint && !experiment.adapter.used()) {
      const bool needs_weights = experiment.memory.policy == "auto" || trains_on_features(experiment);
      experiment.weights = needs_weights && !is_damaged(*checkpoint) ? checkpoint->string() : "";
    }
    std::unique_ptr<Setup> planned = ready(experiment, folder.plan(), ranks);
    return with_advice_when_exhausted(experiment, true, [&] {
      const File stream = open_stream(folder.path(), ranks);
      Run training_run(experiment, std::move(planned), checkpoint, stream.get(), ranks);
      if (checkpoint) {
        training_run.resume(folder, *checkpoint);
      } else if (ranks.rank() == 0) {
        folder.go_back_to_start();
        if (report_.for_people())
          std::fputs(
              fmt::format("{} ended before its first checkpoint: it starts again at step 0\n", folder.path().string())
                  .c_str(),
              stdout);
      }
      return ranks.rank() > 0 ? training_run.run_beside() : run(training_run, folder);
    });
  }

  int run(Run& training_run, const RunFolder& folder) const {
    const int signal = training_run.run(folder);
    report_.write("", training_run.summary());
    return signal;
  }

  /// Resolves and plans; returns the setup on `meta`, under the plan. What can be planned but not trained is refused
  /// first. `plan`: of the run that goes on.
  std::unique_ptr<Setup> ready(Experiment& experiment, const fs::path& plan, Communicator& ranks) const {
    const bool chooses_device = experiment.train.device == "auto";
    experiment = on_ranks(std::move(experiment), ranks);
    on_each(ranks, [&] {
      if (gpus_ > 0 && experiment.train.device == "auto")
        experiment.train.device = name_of(available_device(experiment));
      if (gpus_ > 0 && device_of(experiment).kind != DeviceKind::cuda)
        reject("--gpus trains on GPUs: expected train.device=cuda, got {}", experiment.train.device);
      if (experiment.train.device == "meta")
        reject("train.device: nothing can be trained on meta, which holds no values; `lacuna plan` runs there");
      existing_device(experiment);
    });
    join_gpus(experiment, ranks);
    settle_sizes(experiment, ranks);
    on_each(ranks, [&] {
      if (experiment.samples.size < experiment.train.batch_size)
        reject(
            "train.batch_size is {}, but the data set {} has {} samples to train on: "
            "train.batch_size=auto finds a size",
            experiment.train.batch_size, experiment.data.name, experiment.samples.size);
      experiment = resolve(std::move(experiment));
    });
    std::unique_ptr<Setup> setup = setup_to_plan(experiment);
    plan_memory_together(*setup, experiment, plan, ranks);
    setup->set_policy(make_memory_policy(experiment, Device::meta));
    if (ranks.rank() == 0) {
      warn_if_crowded();
      if (available_device(experiment) == Device::cpu) note_if_shared(experiment.train.precision);
      if (chooses_device && experiment.train.device == "cpu")
        for (const std::string& problem : find_cuda_devices().problems())
          print_error(fmt::format("lacuna: note: training on the CPU, since a GPU cannot be used: {}\n", problem));
    }
    return setup;
  }

  struct Close {
    void operator()(std::FILE* file) const {
      if (file != stdout) std::fclose(file);
    }
  };
  using File = std::unique_ptr<std::FILE, Close>;
  /// The stream of the progress display; null: none.
  File open_stream(const fs::path& run, const Communicator& ranks) const {
    if (ranks.rank() == 0) return File(report_.for_people() ? stdout : nullptr);
    if (!rank_logs_) return nullptr;
    std::error_code ignored;
    fs::create_directories(run, ignored);
    const fs::path path = run / fmt::format("rank-{}.log", ranks.rank());
    File file(std::fopen(path.c_str(), "a"));
    if (!file) reject("cannot write {}: {}", path.string(), last_system_error());
    return file;
  }

  ConfigurationOptions configuration_;
  std::string resumed_;
  bool overwrite_ = false, rank_logs_ = false;
  double rank_timeout_ = 1800;
  int gpus_ = 0;  // 0: those of the launcher, or one
  Report report_;
};

const RegisterCommand train(10, "train", "train or fine-tune a model; writes a run folder", declare<Train>);

}  // namespace
}  // namespace lacuna::apps
