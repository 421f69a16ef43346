// The data set of preferences: a chosen and a rejected answer to each prompt.
#include "data/text/language/language_dataset.h"

#include <utility>

namespace lacuna {
namespace {

struct PreferenceOptions : LanguageOptions {
  static Fields fields() { return rows_of_base<PreferenceOptions, LanguageOptions>(); }
};

/// A sample has two sequences, the chosen and the rejected one; their answers are learned.
LanguageSplit open_preference(const DatasetOptions& options) {
  const auto own = read_options<PreferenceOptions>("data set preference", options.settings);
  LanguageSplit out = open_language(own, {.preference = true}, options);
  out.info.fields.push_back(sequence_lengths_field());
  out.info.fields.back().shape = {2};
  out.info.size = samples_to_use(options, std::ssize(out.rows));
  return out;
}

const RegisterDataset preference(
    "preference", {.describe = [](const DatasetOptions& options) { return open_preference(options).info; },
                   .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                     LanguageSplit opened = open_preference(options);
                     std::vector<std::vector<std::int32_t>> samples;
                     for (const std::int32_t row : opened.rows) samples.push_back({row});
                     return std::make_unique<LanguageDataset>(std::move(opened.info), std::move(opened.encoded),
                                                              std::move(samples));
                   },
                   .options = PreferenceOptions{},
                   .recognize = [](const std::filesystem::path& path, OpenedFiles&) -> Recognition {
                     return {.certainty = first_row_is(path, {RowForm::preference}) ? 2 : 0};
                   }});

}  // namespace
}  // namespace lacuna
