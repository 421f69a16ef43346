// A sweep file: a command, and the cases that it runs on.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lacuna::apps {

struct SweepOverride {
  std::string key;               // as `train.batch_size`
  std::string value;             // YAML on one line
  std::string text;              // as people read it: without the quotes of a text
  std::optional<double> number;  // what it is as a number
};

struct SweepCase {
  std::vector<std::string> configurations;  // files; what a later one sets takes the place of what one before it does
  std::vector<SweepOverride> overrides;     // a key stands once
  std::vector<SweepOverride> settings;      // the same, key by key of the sections that were given whole
  std::string id;                           // as id_of gave it when the sweep was read
};

struct Sweep {
  std::string command;
  std::vector<std::string> arguments;  // of the command, beside configuration and overrides
  std::filesystem::path folder;        // of the results
  std::vector<SweepCase> cases;        // the grid's first key changes slowest, the rows of `cases` fastest
  std::size_t repeated_trials = 0;     // of `random`, which are left out: they draw what one before them did
};

/// A hash of command, arguments, overrides, and the names and contents that the configurations have now.
std::string id_of(const Sweep& sweep, const SweepCase& one);

/// Reads a sweep file. Refuses it with all problems at once, each with its place; a wrong value in an override is left
/// to the case that has it. `overrides`: `key=value` for all cases, in place of the file's own; `output.dir` is the
/// sweep's.
Sweep read_sweep(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});

}  // namespace lacuna::apps
