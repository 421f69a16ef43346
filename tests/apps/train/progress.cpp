#include "apps/train/progress.h"

#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace lacuna::apps {

TEST_CASE("progress: a line says where the run stands, in the terminal's width") {
  const ProgressLine line{.epoch = 2,
                          .epochs = 8,
                          .step = 7,
                          .steps = 390,
                          .loss = 1.25,
                          .metric = metric_text("accuracy", 0.5),
                          .learning_rate = 0.05,
                          .samples_per_second = 512.25,
                          .memory = 3 << 20,
                          .peak = 5LL << 30,
                          .elapsed = 61,
                          .remaining = 3723};
  CHECK(to_string(line, std::string::npos) ==
        "epoch 2/8  step   7/390  loss 1.2500  accuracy 50.00 %  lr 5.000e-02  512.2 samples/s  memory 3.00 MiB  peak "
        "5.00 "
        "GiB  1:01 elapsed  1:02:03 left");
  for (const std::size_t width : {1, 20, 40, 79, 100, 120}) {
    const std::string text = to_string(line, width);
    CHECK(text.size() <= width);
    CHECK((text.find("step   7/390") != std::string::npos || width < 20));
  }
}

TEST_CASE("progress: an evaluation says how far it is") {
  CHECK(to_string(EvaluationLine{.epoch = 2, .epochs = 8, .samples = 100, .of = 400, .elapsed = 10}, 79) ==
        "epoch 2/8  evaluating 100/400  10.0 samples/s  0:30 left");
  CHECK(to_string(EvaluationLine{.samples = 0, .of = 400}, 79) == "evaluating 0/400");
  CHECK(to_string(EvaluationLine{.epoch = 2, .epochs = 8, .samples = 100, .of = 400, .elapsed = 10}, 20) ==
        "evaluating 100/400");
}

TEST_CASE("progress: no terminal gets plain lines, and not too many") {
  const test::TemporaryFolder folder;
  std::FILE* const file = std::fopen((folder / "out").c_str(), "w");
  {
    ProgressDisplay display(file);
    for (int i = 0; i < 100; ++i) display.update({.epoch = 1, .epochs = 1, .step = i, .steps = 100});
    display.print("done");
  }
  std::fclose(file);
  const std::string text = test::read_file(folder / "out");
  CHECK(text.find('\r') == std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.starts_with("epoch 1/1  step   0/100"));
  CHECK(text.ends_with("\ndone\n"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  ProgressDisplay(nullptr).print("nobody sees this");
}

TEST_CASE("progress: a terminal that went away does not end the run") {
  std::FILE* const full = std::fopen("/dev/full", "w");
  REQUIRE(full != nullptr);
  {
    ProgressDisplay display(full);
    display.print("lost");
    display.update({.epoch = 1, .epochs = 1, .step = 1, .steps = 100});
    display.print("lost too");
  }
  std::fclose(full);
}

}  // namespace lacuna::apps
