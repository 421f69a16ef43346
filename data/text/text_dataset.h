// The common base of text data sets: a token cache, settings, files.
#pragma once

#include "data/dataset.h"
#include "data/text/tokenizer.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lacuna {

/// A tokenized sample.
struct EncodedText {
  std::vector<std::int32_t> tokens;
  std::int64_t second = 0;           // index of the first token of type 1; tokens.size() if there is none
  std::vector<std::int32_t> labels;  // data set specific: per token, or positions
  std::vector<std::int32_t> pair{};  // tokens of a second text, as a separate sequence
};
EncodedText encoded(const Tokenizer::Encoding& encoding);

/// A compact cache of tokenized samples: token ids take 16 bits if the vocabulary allows it. Thread-safe.
class TokenCache {
 public:
  TokenCache(std::int64_t samples, std::int64_t vocabulary_size);
  /// Returns false if the sample is not cached.
  bool find(std::int64_t index, EncodedText& text) const;
  void keep(std::int64_t index, const EncodedText& text);

 private:
  struct Block {
    std::unique_ptr<std::byte[]> data;
    std::size_t size = 0, used = 0;
  };
  const bool wide_;  // 32-bit ids
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;
  std::vector<const std::byte*> places_;  // [samples]; null: not cached
};

/// A data set of token sequences: `tokens` i64 [L], `token_types` i64 [L], and targets. A text is tokenized by the
/// thread that first reads it.
class TextDataset : public Dataset {
 public:
  TextDataset(DatasetInfo info, std::shared_ptr<const Tokenizer> tokenizer);
  std::int64_t length(std::int64_t index) const final;

 protected:
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// Tokenizes a sample.
  virtual EncodedText encode(std::int64_t index) const = 0;
  /// Sets the targets of a sample.
  virtual void set_targets(const EncodedText& text, Sample& sample) const = 0;

 private:
  EncodedText text_of(std::int64_t index) const;
  void read_sample(std::int64_t index, Sample& sample) const final;

  std::shared_ptr<const Tokenizer> tokenizer_;
  mutable TokenCache cache_;
};

/// Sets `tokens` and `token_types` of a sample, and `pair_tokens` and `pair_token_types` if it has a second sequence.
void set_tokens(const EncodedText& text, Sample& sample);
/// Sets an i64 tensor.
void set_whole(std::string_view name, std::span<const std::int32_t> values, const Shape& shape, Sample& sample);

enum class TextPadding : std::uint8_t { none, longest };
std::array<std::pair<std::string_view, TextPadding>, 2> names_of(TextPadding);

/// Options of every data set of text.
struct TextOptions {
  std::string tokenizer{};
  std::int64_t max_length = 128;
  TextPadding padding = TextPadding::none;
  bool group_by_length = false;

  static Fields fields();
};
inline constexpr std::string_view validation_file_help = "file to evaluate on; empty: the one beside the training file";

/// The tokenizer named in the options, or the one in the model's folder.
std::shared_ptr<const Tokenizer> tokenizer_of(const TextOptions& own, const DatasetOptions& options);
std::filesystem::path tokenizer_path(const TextOptions& own, const DatasetOptions& options);

/// The fields `tokens` and `token_types`, packed or padded according to the options.
SampleFields token_fields(const TextOptions& own, const Vocabulary& vocabulary);
/// The same fields for a second sequence: names, also those of offsets and lengths, get the prefix `pair_`.
SampleFields pair_fields(SampleFields fields);
/// A per-token field with the layout of `token_fields`.
SampleField per_token(std::string name, const TextOptions& own);

/// The number of samples to use out of `held`; rejects a request for more.
std::int64_t samples_to_use(const DatasetOptions& options, std::int64_t held);

/// Whether a file without its extension has a name for evaluation: `dev`, `validation`, `valid`, `val`, `test`.
bool is_validation_name(std::string_view stem);

/// The file to evaluate on; nothing where none is named and none lies beside the training file.
std::optional<std::filesystem::path> validation_file(const std::string& validation, const DatasetOptions& options,
                                                     const std::vector<std::string>& extensions);

/// The file of a split. Training: data.path itself, or `train.*` in that folder. Validation: the setting `validation`,
/// or `dev.*`, `validation.*`, `val.*` or `test.*` in the folder. `*` is one of the extensions.
std::filesystem::path split_file(const std::string& validation, const DatasetOptions& options,
                                 const std::vector<std::string>& extensions);

/// Makes samples without targets from a user's texts: `tokens`, `token_types`, and `spans` i64 [L, 2], the bytes that
/// each token stands for in `passage` u8, the text or the second one of a pair; -1: none.
class TextInputs final : public InputReader {
 public:
  TextInputs(SampleFields fields, std::shared_ptr<const Tokenizer> tokenizer, std::int64_t max_length);
  const SampleFields& fields() const override { return fields_; }
  Vocabulary vocabulary() const override;
  void read(std::string_view input, Sample& sample) const override;
  void read_pair(std::string_view input, std::string_view pair, Sample& sample) const override;

 private:
  SampleFields fields_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::int64_t max_length_;
};

/// The input reader of a data set with these options.
std::unique_ptr<const InputReader> text_inputs(const TextOptions& own, const DatasetOptions& options);

}  // namespace lacuna
