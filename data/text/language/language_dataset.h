// Data sets of token sequences for language models: rows of files, encoded when they are opened.
#pragma once

#include "data/text/language/encoder.h"
#include "data/text/language/row_files.h"
#include "data/text/text_dataset.h"

#include <memory>
#include <string>
#include <vector>

namespace lacuna {

inline constexpr std::string_view sequence_lengths = "sequence_lengths", sequence_offsets = "sequence_offsets";

/// Options that these data sets share.
struct LanguageOptions {
  std::string validation{};
  double val_fraction = usual_fraction;
  std::string tokenizer{};
  std::int64_t max_length = EncoderOptions{}.max_length;
  TooLong too_long = TooLong::cut;
  std::string chat_template{}, template_date{};
  bool add_eos = true, group_by_length = false;

  static Fields fields();
};
std::array<std::pair<std::string_view, TooLong>, 3> names_of(TooLong);
std::array<std::pair<std::string_view, LossOn>, 2> names_of(LossOn);
std::array<std::pair<std::string_view, AlpacaAs>, 2> names_of(AlpacaAs);

/// The encoded rows of files, one behind another, or their windows.
struct EncodedRows {
  RowForm form{};
  std::vector<EncodedRow> rows{};
  std::vector<std::int32_t> first{};  // index of each file row's first one, and the number of all
  std::set<std::string> unread{};     // keys
  std::string encoder{};              // RowEncoder::description
  bool has_chats = false;             // conversations, as the first row is one
  bool has_texts = false;             // texts, as the first row is one
};

/// A split that is open.
struct LanguageSplit {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const EncodedRows> encoded;
  std::vector<std::int32_t> rows;  // of `encoded` in the split, without those left out
  DatasetInfo info;                // without its size and field of lengths
};
struct LanguageRows {
  LossOn loss_on = LossOn::answers;
  AlpacaAs alpaca = AlpacaAs::text;
  bool preference = false;
  std::int64_t window_stride = 0;
};
/// Rejects rows of another form than the first one, or than `preference` says, with their place and keys, and a split
/// in which nothing is learned.
LanguageSplit open_language(const LanguageOptions& own, const LanguageRows& how, const DatasetOptions& options);

/// Samples of one sequence or several: `tokens` i64 [L] and `labels` i64 [L], the token's own id where its loss counts
/// and else -100, one sequence after another. With several also `sequence_lengths` i64 [sequences]; they add up to L.
class LanguageDataset final : public Dataset {
 public:
  /// `samples`: indices of rows, whose sequences follow one another in a sample.
  LanguageDataset(DatasetInfo info, std::shared_ptr<const EncodedRows> rows,
                  std::vector<std::vector<std::int32_t>> samples);
  std::int64_t length(std::int64_t index) const override;

 private:
  void read_sample(std::int64_t index, Sample& sample) const override;

  std::shared_ptr<const EncodedRows> rows_;
  std::vector<std::vector<std::int32_t>> samples_;
};
/// The field of the lengths of a sample's sequences.
SampleField sequence_lengths_field();

/// Whether the first row of a file, or of a folder's first one, has one of these forms.
bool first_row_is(const std::filesystem::path& path, std::initializer_list<RowForm> forms);

}  // namespace lacuna
