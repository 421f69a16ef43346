// lacuna train: trains or fine-tunes; writes a run folder.
#include "apps/command.h"
#include "apps/config/configuration_options.h"
#include "apps/config/resolve.h"
#include "apps/config/yaml.h"
#include "apps/output.h"
#include "apps/train/crowding.h"
#include "apps/train/fit.h"
#include "apps/train/interrupt.h"
#include "apps/train/planning.h"
#include "apps/train/training_run.h"
#include "core/parallel.h"

#include <CLI/CLI.hpp>

#include <filesystem>
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
    app.add_flag("--overwrite", overwrite_, "replace the run that the folder holds");
    report_.declare(app);
  }

  ExitCode operator()() const {
    if (!configuration_.given() && resumed_.empty()) reject("expected -c CONFIG, --resume RUN, or both");
    if (overwrite_ && !resumed_.empty()) reject("--overwrite begins anew and --resume goes on: expected one of them");
    const InterruptGuard guard;  // from here on: reading data and building a model may take a while
    const int signal = resumed_.empty() ? begin() : go_on();
    return signal == 0 ? 0 : 128 + signal;
  }

 private:
  int begin() const {
    const Configuration configuration = ready(configuration_.parse());
    return with_advice_when_exhausted(configuration, true, [&] {
      // Everything the configuration can have wrong is found before the folder is touched.
      TrainingRun training(configuration, {}, stream());
      return run(training, RunFolder::create(configuration.output.dir, overwrite_));
    });
  }

  int go_on() const {
    const CheckpointPath point = checkpoint_path(resumed_);
    const RunFolder folder = RunFolder::open_to_resume(point.run);
    const std::optional<fs::path> checkpoint =
        point.checkpoint.empty() ? folder.newest() : folder.checkpoint(point.checkpoint);
    Configuration configuration = configuration_.given()
                                      ? configuration_.parse()
                                      : read_configuration(folder.configuration(), configuration_.overrides());
    std::error_code failed;
    for (const std::string& change : configuration_.overrides())
      if (sets(change, "output", "dir") && !fs::equivalent(configuration.output.dir, point.run, failed))
        reject("{}: a resumed run stays in its folder, {}", change, point.run.string());
    // The run's weights are the checkpoint's, and the file that it began with may be gone.
    const std::string from = configuration.model.from;
    if (checkpoint && !configuration.adapter.used())  // an adapter's base is no part of it
      configuration.model.from =
          configuration.memory.policy == "auto" && !is_damaged(*checkpoint) ? checkpoint->string() : "";
    const Configuration planned = ready(configuration, folder.plan());
    configuration = planned;
    configuration.model.from = from;
    configuration.output.dir = point.run.string();
    return with_advice_when_exhausted(planned, true, [&] { return go_on(configuration, folder, checkpoint); });
  }

  int go_on(const Configuration& configuration, const RunFolder& folder,
            const std::optional<fs::path>& checkpoint) const {
    TrainingRun training(configuration, checkpoint, stream());
    if (checkpoint) {
      training.resume(folder, *checkpoint);
    } else {
      folder.go_back_to_start();
      if (report_.for_people())
        std::fputs(
            fmt::format("{} ended before its first checkpoint: it starts again at step 0\n", folder.path().string())
                .c_str(),
            stdout);
    }
    return run(training, folder);
  }

  int run(TrainingRun& training, const RunFolder& folder) const {
    const int signal = training.run(folder);
    report_.write("", training.summary());
    return signal;
  }

  /// Resolved and planned. What can be planned but not trained is refused first. `plan`: of the run that goes on.
  static Configuration ready(const Configuration& read, const fs::path& plan = {}) {
    if (read.train.device == "meta")
      reject("train.device: nothing can be trained on meta, which holds no values; `lacuna plan` runs there");
    const DatasetInfo data = describe_dataset(read.data.name, dataset_options(read, Split::train));
    if (data.size < read.train.batch_size)
      reject("train.batch_size is {}, but the data set {} has {} images to train on", read.train.batch_size,
             read.data.name, data.size);
    Configuration configuration = resolve(read);
    const ThreadCountScope threads(static_cast<int>(configuration.train.threads));
    plan_memory(configuration, plan);
    warn_if_crowded();
    return configuration;
  }

  std::FILE* stream() const { return report_.for_people() ? stdout : nullptr; }

  ConfigurationOptions configuration_;
  std::string resumed_;
  bool overwrite_ = false;
  Report report_;
};

const RegisterCommand train(10, "train", "train or fine-tune a model; writes a run folder", declare<Train>);

}  // namespace
}  // namespace lacuna::apps
