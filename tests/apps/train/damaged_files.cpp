#include "apps/train/damaged_files.h"

#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <fstream>

namespace lacuna::test {

TEST_CASE("train: damaged files are listed, whatever else is in the metrics") {
  const TemporaryFolder folder;
  std::ofstream(folder / "metrics.jsonl") << R"({"replaced": [{"file": "a", "why": "short", "instead": "b"}]}
3
[{"replaced": []}]
{"replaced": 3, "val_left_out": "a"}
{"replaced": [3, {"file": 3, "why": "short"}, {"file": "c", "why": "short", "instead": 3}, {"why": "short"}]}
{"replaced": [{"file": "a", "w
{"val_left_out": [{"file": "d", "why": "empty"}]}
)";
  const apps::DamagedInRun damaged = apps::damaged_in_run(folder / "metrics.jsonl");
  CHECK(damaged.files == 2);
  for (const char* const seen : {"a: short", "d: empty"}) check_says(damaged.text, seen);
}

}  // namespace lacuna::test
