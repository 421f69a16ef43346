// Early stopping, and class weights that a run counts and stores.
#include "tests/apps/train/train_run.h"

namespace lacuna::test {

TEST_CASE("train: a run that is out of patience ends, says so, and goes on with more of it") {
  const TemporaryFolder folder(vit);
  // Without a learning rate no evaluation is better than the first.
  const CommandResult ended =
      run_command(folder, train({"output.dir=r", "train.epochs=9", "train.patience=2", "train.best_by=loss",
                                 "optimizer.lr=0", "schedule={name: constant}"}));
  INFO(ended.error);
  REQUIRE(ended.code == 0);
  check_says(ended.out, "train.patience");
  const nlohmann::json summary = read_json(folder / "r/summary.json");
  CHECK(summary.at("epochs") == 3);
  CHECK(summary.at("stopped_early") == true);
  CHECK(summary.at("best").at("metric") == "loss");
  CHECK(summary.at("best").at("higher_is_better") == false);
  CHECK(fs::read_symlink(folder / "r/best").filename() == "step-00000004");

  const std::string before = read_file(folder / "r/metrics.jsonl");
  const CommandResult nothing = run_command(folder, {"train", "--resume", "r"});
  CHECK(nothing.code == 0);
  check_says(nothing.out, "train.patience");
  CHECK(read_file(folder / "r/metrics.jsonl") == before);

  test::run(folder, {"train", "--resume", "r", "train.patience=4"});
  CHECK(read_json(folder / "r/summary.json").at("epochs") == 5);
  test::run(folder, {"train", "--resume", "r", "train.patience=0", "train.epochs=6"});
  CHECK(read_json(folder / "r/summary.json").at("epochs") == 6);
  CHECK(read_json(folder / "r/summary.json").at("stopped_early") == false);
}

TEST_CASE("train: balanced class weights are numbers in the run's configuration") {
  const TemporaryFolder folder(vit);
  const CommandResult result = run_command(
      folder, train({"output.dir=r", "train.steps=1", "data.train_size=200", "task.class_weights=balanced"}));
  INFO(result.error);
  REQUIRE(result.code == 0);
  const std::string configuration = read_file(folder / "r/config.yaml");
  check_says(configuration, "class_weights");
  CHECK(configuration.find("balanced") == std::string::npos);
  CHECK(run_command(folder, {"train", "--resume", "r", "train.steps=2"}).code == 0);
  CHECK(run_command(folder, {"eval", "r"}).code == 0);
}

}  // namespace lacuna::test
