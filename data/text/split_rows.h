// The rows of a split of a text file, a part of which may be held out for evaluation.
#pragma once

#include "data/dataset.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

inline constexpr std::string_view text_fraction_help =
    "fraction of the texts held out for evaluation, by the texts and data.seed, if there is no file for it";

/// The file of a split; without one to evaluate on, the training file.
std::filesystem::path source_file(const std::string& validation, const DatasetOptions& options,
                                  const std::vector<std::string>& extensions);

/// A file that is opened for `options.split`, and how its samples are told apart.
struct TextRows {
  std::filesystem::path file;
  std::filesystem::path evaluated{};  // the file to evaluate on; empty: there is none
  std::int64_t count = 0;
  std::vector<std::int32_t> labels{};                      // of classes; empty: the rows count as one class
  std::function<std::string(std::int64_t row)> name_of{};  // its text
};

struct SplitRows {
  std::vector<std::int32_t> rows{};
  std::shared_ptr<const HeldOut> held_out{};  // null: none of the file's rows is
  double fraction = 0;

  /// A phrase for the description; empty if nothing is held out.
  std::string description() const;
};

/// Without a file to evaluate on, `val_fraction` of each class is held out.
SplitRows split_rows(const TextRows& rows, double val_fraction, const DatasetOptions& options);

}  // namespace lacuna
