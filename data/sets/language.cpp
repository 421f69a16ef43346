// The data set of texts and conversations for language models: continued pre-training and fine-tuning.
#include "data/text/language/language_dataset.h"
#include "data/text/language/packing.h"

#include "core/error.h"

#include <utility>

namespace lacuna {
namespace {

enum class Packing : std::uint8_t { none, best_fit };
std::array<std::pair<std::string_view, Packing>, 2> names_of(Packing) {
  return {{{"none", Packing::none}, {"best_fit", Packing::best_fit}}};
}

struct TuningOptions : LanguageOptions {
  LossOn loss_on = LossOn::answers;
  AlpacaAs alpaca = AlpacaAs::text;
  Packing packing = Packing::none;
  std::int64_t window_stride = 0;

  static Fields fields() {
    using O = TuningOptions;
    return Fields{field("loss_on", &O::loss_on,
                        "tokens that are learned: `answers` of assistants and completions with the token that ends "
                        "them, and all of plain texts; or `all`"),
                  field("alpaca", &O::alpaca,
                        "rows with instruction and output: `text` of Alpaca's wording, or `chat`, turns of a "
                        "conversation"),
                  field("packing", &O::packing,
                        "`best_fit` packs several sequences in a sample of up to data.max_length tokens; they stay "
                        "apart"),
                  field("window_stride", &O::window_stride, up_to(1 << 20),
                        "sequences of more tokens become windows of data.max_length tokens that begin so many tokens "
                        "apart; a token is learned in the first one that has it; 0: data.too_long says")} +
           rows_of_base<TuningOptions, LanguageOptions>();
  }
};

struct OpenedTuning {
  LanguageSplit split;
  std::vector<std::vector<std::int32_t>> samples;
};

OpenedTuning open_tuning(const DatasetOptions& options) {
  const auto own = read_options<TuningOptions>("data set language", options.settings);
  OpenedTuning out{
      open_language(own, {.loss_on = own.loss_on, .alpaca = own.alpaca, .window_stride = own.window_stride}, options),
      {}};
  DatasetInfo& info = out.split.info;
  const std::vector<std::int32_t>& rows = out.split.rows;
  if (own.packing == Packing::best_fit) {
    std::vector<std::int64_t> lengths;
    std::int64_t tokens = 0;
    for (const std::int32_t row : rows) {
      lengths.push_back(std::ssize(out.split.encoded->rows[static_cast<std::size_t>(row)].sequences[0].tokens));
      tokens += lengths.back();
    }
    out.samples = best_fit_bins(lengths, own.max_length);
    for (std::vector<std::int32_t>& bin : out.samples)
      for (std::int32_t& row : bin) row = rows[static_cast<std::size_t>(row)];
    info.fields.push_back(sequence_lengths_field());
    info.description += fmt::format(
        "; packed in {} samples, which are {:.1f} % full", out.samples.size(),
        100.0 * static_cast<double>(tokens) / static_cast<double>(own.max_length * std::ssize(out.samples)));
  } else {
    for (const std::int32_t row : rows) out.samples.push_back({row});
  }
  info.size = samples_to_use(options, std::ssize(out.samples));
  return out;
}

const RegisterDataset language(
    "language", {.describe = [](const DatasetOptions& options) { return open_tuning(options).split.info; },
                 .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                   OpenedTuning opened = open_tuning(options);
                   return std::make_unique<LanguageDataset>(std::move(opened.split.info),
                                                            std::move(opened.split.encoded), std::move(opened.samples));
                 },
                 .options = TuningOptions{},
                 .recognize = [](const std::filesystem::path& path, OpenedFiles&) -> Recognition {
                   return {.certainty = first_row_is(path, {RowForm::messages, RowForm::share_gpt, RowForm::alpaca,
                                                            RowForm::completion, RowForm::tokens})
                                            ? 2
                                            : 0};
                 }});

}  // namespace
}  // namespace lacuna
