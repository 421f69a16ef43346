#include "data/text/split_rows.h"

#include "core/error.h"
#include "data/text/text_dataset.h"

#include <fmt/format.h>

#include <utility>

namespace lacuna {

std::string SplitRows::description() const {
  return held_out
             ? fmt::format("{} rows to evaluate on, {}", held_out->names.size(), describe_held_out(*held_out, fraction))
             : "";
}

std::filesystem::path source_file(const std::string& validation, const DatasetOptions& options,
                                  const std::vector<std::string>& extensions) {
  DatasetOptions of = options;
  if (!validation_file(validation, options, extensions)) of.split = Split::train;
  return split_file(validation, of, extensions);
}

SplitRows split_rows(const TextRows& rows, double val_fraction, const DatasetOptions& options) {
  const bool is_training = options.split == Split::train;
  if (!rows.evaluated.empty() && val_fraction != usual_fraction)
    reject("data.val_fraction is {}, but {} has texts to evaluate on", val_fraction, rows.evaluated.native());
  SplitRows split{.fraction = val_fraction};
  std::vector<bool> held(static_cast<std::size_t>(rows.count), !is_training);
  if (rows.evaluated.empty() && options.hold_out != HoldOut::none) {
    std::vector<std::int32_t> strata = rows.labels;
    strata.resize(held.size());
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < rows.count; ++i) names.push_back(rows.name_of(i));
    held = held_out(names, names, strata, {options.hold_out, val_fraction, options.seed, options.held_out_before});
    auto sides = std::make_shared<HeldOut>();
    for (std::size_t i = 0; i < held.size(); ++i)
      if (held[i]) sides->names.push_back(std::move(names[i]));
    if (sides->names.empty() && !is_training)
      reject("{}: no text can be held out for evaluation, since each class has one: data.validation names a file",
             rows.file.native());
    sides->are_texts = true;
    sides->trained_on = std::ssize(held) - std::ssize(sides->names);
    if (!sides->names.empty()) split.held_out = std::move(sides);
  }
  for (std::size_t i = 0; i < held.size(); ++i)
    if (held[i] != is_training) split.rows.push_back(static_cast<std::int32_t>(i));
  return split;
}

}  // namespace lacuna
