// tools/cuda-wheels against described machines.
#include "tests/apps/commands/command_run.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace lacuna::test {
namespace {

namespace fs = std::filesystem;

/// A machine by what nvidia-smi and nvcc of its PATH print; empty: it has none.
struct Machine {
  std::string gpus{}, nvcc{};
};

void write_program(const fs::path& file, const std::string& text) {
  if (text.empty()) return;
  std::ofstream(file) << "#!/bin/sh\necho '" << text << "'\n";
  fs::permissions(file, fs::perms::owner_all);
}

CommandResult wheels(const Machine& machine) {
  const TemporaryFolder folder;
  write_program(folder / "nvidia-smi", machine.gpus);
  write_program(folder / "nvcc", machine.nvcc);
  return CommandRun(folder,
                    {"CUDA_PATH=", "CUDA_HOME=" + (folder / "none").string(),
                     "PATH=" + folder.path() + ":/usr/bin:/bin", LACUNA_SOURCE_DIR "/tools/cuda-wheels"},
                    {}, "/usr/bin/env")
      .wait();
}

bool names(const CommandResult& result, const std::string& wheel) {
  return ("\n" + result.out).find("\n" + wheel + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE(
    "cuda-wheels: toolkit, libraries and driver fit each other, or the reason is told before anything is fetched") {
  const std::string h100 = "580.65.06, 9.0, NVIDIA H100", on_r550 = "550.54.14, 8.6, NVIDIA GeForce RTX 3060";
  const auto nvcc = [](const std::string& version) { return "Cuda compilation tools, release " + version + ", V0"; };
  const CommandResult fresh = wheels({h100});
  CHECK(fresh.code == 0);
  CHECK(names(fresh, "nvidia-cuda-nvcc"));
  CHECK(names(fresh, "nvidia-cudnn-cu13"));
  CHECK_FALSE(names(fresh, "nvidia-nccl-cu13"));
  CHECK(names(wheels({h100 + "\n" + h100}), "nvidia-nccl-cu13"));

  const CommandResult of_distribution = wheels({h100, nvcc("12.0")});  // too old: its own comes along
  CHECK(names(of_distribution, "nvidia-cuda-nvcc"));
  const CommandResult twelve = wheels({on_r550, nvcc("12.8")});
  CHECK(names(twelve, "nvidia-cudnn-cu12"));
  CHECK_FALSE(names(twelve, "nvidia-cuda-nvcc"));

  for (const Machine& unfit : {Machine{},
                               {"580.65.06, 7.5, Tesla T4"},
                               {"535.1, 8.0, A100"},
                               {on_r550},
                               {on_r550, nvcc("13.0")},
                               {on_r550, nvcc("12.0")}}) {
    const CommandResult refused = wheels(unfit);
    INFO(unfit.gpus, unfit.nvcc);
    CHECK(refused.code == 1);
    CHECK(refused.out.empty());
    CHECK_FALSE(refused.error.empty());
  }
  CHECK(wheels({"580.65.06, 7.5, Tesla T4\n" + h100}).code == 0);
}

}  // namespace lacuna::test
