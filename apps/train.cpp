// lacuna train: trains or fine-tunes; writes a run folder.
#include "apps/command.h"
#include "apps/configuration_options.h"
#include "apps/report.h"
#include "apps/resolve.h"
#include "apps/trainer.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

namespace lacuna::apps {
namespace {

class Train {
 public:
  explicit Train(CLI::App& app) {
    configuration_.declare(app, false);
    app.add_option("--resume", resumed_, "go on with the run in this folder, with its configuration unless -c is given")
        ->type_name("RUN");
    app.add_flag("--overwrite", overwrite_, "replace the run that is in the run folder");
    report_.declare(app);
  }

  ExitCode operator()() const {
    if (!configuration_.given() && resumed_.empty()) reject("expected -c CONFIG, --resume RUN, or both");
    if (overwrite_ && !resumed_.empty()) reject("--overwrite begins anew and --resume goes on: expected one of them");
    Configuration configuration = read();
    if (configuration.train.device == "meta")
      reject("train.device: nothing can be trained on meta, which holds no values; `lacuna plan` runs there");
    if (!resumed_.empty()) configuration.output.dir = resumed_;

    // Everything the configuration can have wrong is found before the folder is touched.
    Trainer trainer(configuration, !resumed_.empty(), report_.for_people() ? stdout : nullptr);
    const RunFolder folder =
        resumed_.empty() ? RunFolder::create(configuration.output.dir, overwrite_) : RunFolder::open(resumed_);
    if (!resumed_.empty()) trainer.resume(folder);
    const int signal = trainer.run(folder);
    report_.write("", trainer.summary());
    return signal == 0 ? 0 : 128 + signal;
  }

 private:
  Configuration read() const {
    if (configuration_.given()) return configuration_.read();
    return resolve(read_configuration(RunFolder::open(resumed_).configuration(), configuration_.overrides()));
  }

  ConfigurationOptions configuration_;
  std::string resumed_;
  bool overwrite_ = false;
  Report report_;
};

const RegisterCommand train(10, "train", "train or fine-tune; writes a run folder", declare<Train>);

}  // namespace
}  // namespace lacuna::apps
