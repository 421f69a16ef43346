// The common base of data sets of text: tokens that are made once and kept, settings, files.
#pragma once

#include "data/dataset.h"
#include "data/text/tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace lacuna {

/// A sample in tokens.
struct EncodedText {
  std::vector<std::int32_t> tokens;
  std::int64_t second = 0;           // where the tokens of type 1 begin; as many as there are where there are none
  std::vector<std::int32_t> labels;  // as the data set means it: of each token, or positions
  std::vector<std::int32_t> pair{};  // tokens of a second text that is a sequence of its own
};
EncodedText encoded(const Tokenizer::Encoding& encoding);

/// Encoded samples in few bytes: token ids of 16 bits where the vocabulary allows it. Any thread may call it.
class TokenCache {
 public:
  TokenCache(std::int64_t samples, std::int64_t vocabulary_size);
  /// False where the sample was not kept yet.
  bool find(std::int64_t index, EncodedText& text) const;
  void keep(std::int64_t index, const EncodedText& text);

 private:
  struct Block {
    std::unique_ptr<std::byte[]> data;
    std::size_t size = 0, used = 0;
  };
  const bool wide_;  // 32 bits
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;
  std::vector<const std::byte*> places_;  // [samples]; null: not kept yet
};

/// A data set of token sequences: `tokens` i64 [L], `token_types` i64 [L], and targets. Texts become tokens on the
/// thread that first reads them.
class TextDataset : public Dataset {
 public:
  TextDataset(DatasetInfo info, std::shared_ptr<const Tokenizer> tokenizer);
  std::int64_t length(std::int64_t index) const final;

 protected:
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// Makes the tokens of a sample.
  virtual EncodedText encode(std::int64_t index) const = 0;
  /// Sets the targets of a sample.
  virtual void set_targets(const EncodedText& text, Sample& sample) const = 0;

 private:
  EncodedText text_of(std::int64_t index) const;
  void read_sample(std::int64_t index, Sample& sample) const final;

  std::shared_ptr<const Tokenizer> tokenizer_;
  mutable TokenCache cache_;
};

/// Sets `tokens` and `token_types` of a sample, and those of its second sequence, which begin with `pair_`.
void set_tokens(const EncodedText& text, Sample& sample);
/// Sets a tensor of whole numbers.
void set_whole(std::string_view name, std::span<const std::int32_t> values, const Shape& shape, Sample& sample);

/// Settings that every data set of text has, and those of one of them behind them.
std::vector<Setting> text_settings(std::vector<Setting> more, double max_length = 128);
/// The settings of a data set's options, those of text checked.
Settings read_text_settings(std::string_view name, const std::vector<Setting>& known, const DatasetOptions& options);

/// The tokenizer that the options name, or that of the model's folder.
std::shared_ptr<const Tokenizer> tokenizer_of(const Settings& settings, const DatasetOptions& options);
std::filesystem::path tokenizer_path(const Settings& settings, const DatasetOptions& options);

/// `tokens` and `token_types` as the settings want them, packed or padded; a `vocabulary_size` of 0 is not known.
SampleFields token_fields(const Settings& settings, std::int64_t vocabulary_size);
/// The same of a second sequence: names begin with `pair_`, and so do those of the offsets and lengths.
SampleFields pair_fields(SampleFields fields);
/// A field with a value for each token, as `token_fields` has them.
SampleField per_token(std::string name, const Settings& settings);

/// Number of samples to use of `held`; refuses more than there are.
std::int64_t samples_to_use(const DatasetOptions& options, std::int64_t held);

/// The file of a split: data.path itself, or in its folder `train.*`, or `dev.*`, `validation.*`, `val.*` or `test.*`,
/// where * is one of the extensions; the setting `validation` names the other one.
std::filesystem::path split_file(const Settings& settings, const DatasetOptions& options,
                                 const std::vector<std::string>& extensions);

/// Texts that a user gives, as samples without targets.
class TextInputs final : public InputReader {
 public:
  TextInputs(SampleFields fields, std::shared_ptr<const Tokenizer> tokenizer, std::int64_t max_length);
  const SampleFields& fields() const override { return fields_; }
  void read(std::string_view input, Sample& sample) const override;
  void read_pair(std::string_view input, std::string_view pair, Sample& sample) const override;

 private:
  SampleFields fields_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::int64_t max_length_;
};

/// The input reader of the data set `name` with these settings.
std::unique_ptr<const InputReader> text_inputs(std::string_view name, const std::vector<Setting>& known,
                                               const DatasetOptions& options);

}  // namespace lacuna
