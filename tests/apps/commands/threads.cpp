// The environment of OpenMP changes how many threads compute, and never what they compute.
#include "tests/apps/train/train_run.h"

#include <cmath>

namespace lacuna::test {
namespace {

CommandResult run_with(const TemporaryFolder& folder, const std::string& setting, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {setting, LACUNA_BINARY_DIR "/bin/lacuna"});
  return run_program(folder, "/usr/bin/env", std::move(arguments));
}

constexpr const char* settings[] = {"OMP_THREAD_LIMIT=1",      "OMP_THREAD_LIMIT=2",   "OMP_DYNAMIC=true",
                                    "OMP_MAX_ACTIVE_LEVELS=0", "OMP_NESTED=true",      "OMP_PROC_BIND=true",
                                    "OMP_PROC_BIND=spread",    "OMP_PLACES={0}",       "OMP_PLACES=cores",
                                    "GOMP_CPU_AFFINITY=0",     "OMP_NUM_THREADS=2,1,1"};

}  // namespace

TEST_CASE("threads: whatever OpenMP is told, an evaluation has the same result") {
  const TrainedFolder folder;
  const nlohmann::json right = run_command(folder, {"eval", "r", "--json", "-"}).json();
  for (const char* const setting : settings) {
    const CommandResult result = run_with(folder, setting, {"eval", "r", "train.threads=3", "--json", "-"});
    INFO(setting);
    INFO(result.error);
    REQUIRE(result.code == 0);
    CHECK(result.json().at("val_accuracy") == right.at("val_accuracy"));
    CHECK(std::abs(result.json().at("val_loss").get<double>() - right.at("val_loss").get<double>()) < 1e-5);
  }
}

TEST_CASE("threads: a convolutional network trains, and the threads that ran are recorded") {
  const TemporaryFolder folder(resnet);
  for (const char* const setting : settings) {
    const CommandResult result =
        run_with(folder, setting, train({"train.threads=3", "train.steps=1", "output.dir=r", "--overwrite"}));
    INFO(setting);
    INFO(result.error);
    REQUIRE(result.code == 0);
    const int threads = read_json(folder / "r/summary.json").at("threads");
    const std::string text = setting;
    CHECK(threads == (text.starts_with("OMP_THREAD_LIMIT=") ? text.back() - '0' : 3));
    CHECK((result.error.find("train.threads is 3") != std::string::npos) == (threads < 3));
  }
}

TEST_CASE("threads: binding takes no processor away") {
  const TemporaryFolder folder;
  const nlohmann::json right = run_command(folder, {"doctor", "--json", "-"}).json().at("threads");
  for (const char* const setting : {"OMP_PROC_BIND=true", "OMP_PROC_BIND=close", "OMP_PROC_BIND=spread"}) {
    const nlohmann::json bound = run_with(folder, setting, {"doctor", "--json", "-"}).json().at("threads");
    CHECK(bound.at("processors") == right.at("processors"));
    CHECK(bound.at("used") == right.at("used"));
    check_says(bound.at("settings").dump(), setting);
  }
  CHECK(run_with(folder, "OMP_THREAD_LIMIT=1", {"doctor", "--json", "-"}).json().at("threads").at("used") == 1);
}

TEST_CASE("threads: more than any machine has are refused") {
  const TemporaryFolder folder(vit);
  const CommandResult result = run_with(folder, "OMP_NUM_THREADS=100000", train({"train.threads=0"}));
  CHECK(result.code == 2);
  check_says(result.error, "OMP_NUM_THREADS");
  CHECK(run_with(folder, "OMP_NUM_THREADS=100000", train({"train.threads=1", "train.steps=1"})).code == 0);
}

}  // namespace lacuna::test
