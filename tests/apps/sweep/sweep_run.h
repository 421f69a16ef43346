// Sweeps as the tests run them.
#pragma once

#include "tests/apps/refusals.h"
#include "tests/apps/report/page.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna::test {

inline constexpr std::string_view plans =
    "command: plan\n"
    "config: c.yaml\n"
    "overrides: {train.accumulate: 1}\n"
    "grid:\n"
    "  train.batch_size: [4, 8]\n"
    "  memory.policy: [keep, exact]\n"
    "output: {dir: out}\n";

inline void write_inputs(const TemporaryFolder& folder, std::string_view sweep) {
  write_file(folder / "c.yaml", plain_vit);
  write_file(folder / "s.yaml", sweep);
}

inline CommandResult sweep(const TemporaryFolder& folder, std::vector<std::string> rest = {}) {
  std::vector<std::string> arguments{"sweep", "-c", "s.yaml"};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  return run_command(folder, std::move(arguments));
}

/// Checks that sweeps are refused before a case runs; each change is the file's text after `begin`.
inline void check_refused_sweeps(const TemporaryFolder& folder, const std::string& begin,
                                 const std::vector<Refusal>& rows) {
  for (const Refusal& row : rows) {
    write_inputs(folder, begin + row.change + "\n");
    INFO(row.change);
    check_refusals(folder, {"sweep", "-c"}, {{"s.yaml", row.key, row.words}});
  }
}

}  // namespace lacuna::test
