// The machine properties that `doctor` reports.
#include "tests/apps/commands/command_run.h"

#include <doctest/doctest.h>

namespace lacuna::test {

TEST_CASE("doctor: cuda devices, or why there are none") {
  const TemporaryFolder folder;
  const auto cuda_with = [&](const std::string& library) {
    return run_program(folder, "/usr/bin/env",
                       {"LACUNA_CUDA_LIBRARY=" + library, LACUNA_BINARY_DIR "/bin/lacuna", "doctor", "--json", "-"})
        .json()
        .at("cuda");
  };
  const nlohmann::json stand_in = cuda_with(LACUNA_BINARY_DIR "/lib/liblacuna_stand_in.so");
  CHECK(stand_in.at("devices").size() == 2);
  CHECK(stand_in.at("problem") == "");
  CHECK(!stand_in.at("libraries").empty());
  const nlohmann::json none = cuda_with("/no/such/library.so");
  CHECK(none.at("devices").empty());
  CHECK(none.at("problem") != "");
  CHECK(none.at("libraries").empty());
}

}  // namespace lacuna::test
