#include "data/text/text_dataset.h"

#include "core/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <system_error>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

struct Head {
  std::uint32_t tokens, second, labels, pair;
};

template <class T>
void append(std::byte*& at, const std::vector<std::int32_t>& values) {
  for (const std::int32_t value : values) {
    const auto narrow = static_cast<T>(value);
    std::memcpy(at, &narrow, sizeof(T));
    at += sizeof(T);
  }
}

template <class T>
void extract(const std::byte*& at, std::uint32_t count, std::vector<std::int32_t>& values) {
  values.resize(count);
  for (std::int32_t& value : values) {
    T narrow;
    std::memcpy(&narrow, at, sizeof(T));
    value = static_cast<std::int32_t>(narrow);
    at += sizeof(T);
  }
}

}  // namespace

EncodedText encoded(const Tokenizer::Encoding& encoding) {
  const auto second = std::ranges::find(encoding.types, std::int8_t{1});
  return {.tokens = encoding.tokens, .second = second - encoding.types.begin(), .labels = {}};
}

TokenCache::TokenCache(std::int64_t samples, std::int64_t vocabulary_size)
    : wide_(vocabulary_size > 0x10000), places_(static_cast<std::size_t>(samples)) {}

bool TokenCache::find(std::int64_t index, EncodedText& text) const {
  const std::byte* at;
  {
    const std::scoped_lock lock(mutex_);
    at = places_[static_cast<std::size_t>(index)];
  }
  if (at == nullptr) return false;
  Head head;
  std::memcpy(&head, at, sizeof head);
  at += sizeof head;
  text.second = head.second;
  const auto extract_ids = wide_ ? &extract<std::int32_t> : &extract<std::uint16_t>;
  extract_ids(at, head.tokens, text.tokens);
  extract_ids(at, head.pair, text.pair);
  extract<std::int32_t>(at, head.labels, text.labels);
  return true;
}

void TokenCache::keep(std::int64_t index, const EncodedText& text) {
  const Head head{static_cast<std::uint32_t>(text.tokens.size()), static_cast<std::uint32_t>(text.second),
                  static_cast<std::uint32_t>(text.labels.size()), static_cast<std::uint32_t>(text.pair.size())};
  const std::size_t bytes =
      sizeof head + (text.tokens.size() + text.pair.size()) * (wide_ ? 4 : 2) + text.labels.size() * 4;
  const std::scoped_lock lock(mutex_);
  const std::byte*& place = places_[static_cast<std::size_t>(index)];
  if (place != nullptr) return;
  constexpr std::size_t block_bytes = 1U << 18U;
  if (blocks_.empty() || blocks_.back().used + bytes > blocks_.back().size) {
    const std::size_t size = std::max(block_bytes, bytes);
    blocks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size, 0});
  }
  Block& block = blocks_.back();
  std::byte* at = block.data.get() + block.used;
  place = at;
  block.used += bytes;
  std::memcpy(at, &head, sizeof head);
  at += sizeof head;
  const auto append_ids = wide_ ? &append<std::int32_t> : &append<std::uint16_t>;
  append_ids(at, text.tokens);
  append_ids(at, text.pair);
  append<std::int32_t>(at, text.labels);
}

TextDataset::TextDataset(DatasetInfo info, std::shared_ptr<const Tokenizer> tokenizer)
    : Dataset(std::move(info)), tokenizer_(std::move(tokenizer)), cache_(size(), tokenizer_->vocabulary().size) {}

EncodedText TextDataset::text_of(std::int64_t index) const {
  EncodedText text;
  if (cache_.find(index, text)) return text;
  text = encode(index);
  cache_.keep(index, text);
  return text;
}

std::int64_t TextDataset::length(std::int64_t index) const { return std::ssize(text_of(index).tokens); }

void TextDataset::read_sample(std::int64_t index, Sample& sample) const {
  const EncodedText text = text_of(index);
  set_tokens(text, sample);
  set_targets(text, sample);
}

void set_whole(std::string_view name, std::span<const std::int32_t> values, const Shape& shape, Sample& sample) {
  Tensor tensor = sample.make(name, shape, DType::i64);
  std::ranges::copy(values, tensor.data<std::int64_t>());
  sample.set(name, std::move(tensor));
}

void set_tokens(const EncodedText& text, Sample& sample) {
  const auto set = [&](const std::string& prefix, const std::vector<std::int32_t>& tokens, std::int64_t second) {
    const Shape shape{std::ssize(tokens)};
    set_whole(prefix + "tokens", tokens, shape, sample);
    Tensor types = sample.make(prefix + "token_types", shape, DType::i64);
    auto* const out = types.data<std::int64_t>();
    std::fill(out, out + second, 0);
    std::fill(out + second, out + std::ssize(tokens), 1);
    sample.set(prefix + "token_types", std::move(types));
  };
  set("", text.tokens, text.second);
  if (!text.pair.empty()) set("pair_", text.pair, std::ssize(text.pair));
}

std::array<std::pair<std::string_view, TextPadding>, 2> names_of(TextPadding) {
  return {{{"none", TextPadding::none}, {"longest", TextPadding::longest}}};
}

Fields TextOptions::fields() {
  return {
      field("tokenizer", &TextOptions::tokenizer, is_path,
            "folder with `tokenizer.json` or `vocab.txt`, or one of these files; empty: that of the folder model.from"),
      field("max_length", &TextOptions::max_length, NumberRange{.low = 3, .high = 1 << 20},
            "tokens per sample; longer texts are truncated"),
      field("padding", &TextOptions::padding,
            "`none` packs the texts of a batch; `longest` pads them to the longest, in sixteenths of max_length"),
      field("group_by_length", &TextOptions::group_by_length, training_only, "batch texts of similar length together")};
}

fs::path tokenizer_path(const TextOptions& own, const DatasetOptions& options) {
  if (!own.tokenizer.empty()) return own.tokenizer;
  std::error_code ignored;
  if (options.model.empty() || !fs::is_directory(options.model, ignored))
    reject("data.tokenizer: expected a folder with tokenizer.json or vocab.txt, or one of these files");
  return options.model;
}

std::shared_ptr<const Tokenizer> tokenizer_of(const TextOptions& own, const DatasetOptions& options) {
  const fs::path path = tokenizer_path(own, options);
  return options.files->get<Tokenizer>(path.native(), [&] { return open_tokenizer(path); });
}

SampleField per_token(std::string name, const TextOptions& own) {
  return {.name = std::move(name),
          .dtype = DType::i64,
          .shape = {own.max_length},
          .collation = own.padding == TextPadding::none ? Collation::packed : Collation::padded};
}

SampleFields token_fields(const TextOptions& own, const Vocabulary& vocabulary) {
  SampleFields fields{per_token("tokens", own), per_token("token_types", own)};
  fields[0].kind = FieldKind::tokens;
  fields[0].below = vocabulary.size;
  fields[1].below = vocabulary.types;
  return fields;
}

SampleFields pair_fields(SampleFields fields) {
  for (SampleField& field : fields) {
    field.lengths = "pair_" + lengths_of(field);
    field.name = "pair_" + field.name;
  }
  return fields;
}

std::int64_t samples_to_use(const DatasetOptions& options, std::int64_t held) {
  if (options.size() > held)
    reject("data.{0}: {1} samples were asked for, the files hold {2}: data.{0}=0 takes all",
           options.split == Split::train ? "train_size" : "val_size", options.size(), held);
  return options.size() > 0 ? options.size() : held;
}

namespace {

/// The one file in `where` that has one of the names and extensions.
std::optional<fs::path> named_file(const fs::path& where, const std::vector<std::string>& names,
                                   const std::vector<std::string>& extensions, std::string_view key) {
  std::error_code ignored;
  for (const std::string& name : names) {
    std::vector<fs::path> found;
    for (const std::string& extension : extensions)
      if (fs::path file = where / (name + "." + extension); fs::exists(file, ignored)) found.push_back(std::move(file));
    if (found.size() > 1)
      reject("{}: expected one file {}.*, got {} and {}: data.{} names the one to read", where.native(), name,
             found[0].filename().native(), found[1].filename().native(), key);
    if (!found.empty()) return found.front();
  }
  return {};
}

const std::vector<std::string> validation_file_names{"dev", "validation", "valid", "val", "test"};

}  // namespace

bool is_validation_name(std::string_view stem) {
  return std::ranges::find(validation_file_names, stem) != validation_file_names.end();
}

std::optional<fs::path> validation_file(const std::string& validation, const DatasetOptions& options,
                                        const std::vector<std::string>& extensions) {
  if (!validation.empty()) return validation;
  std::error_code ignored;
  const bool folder = fs::is_directory(options.path, ignored);
  if (!folder && options.path.stem() != "train") return {};
  return named_file(folder ? options.path : options.path.parent_path(), validation_file_names, extensions,
                    "validation");
}

fs::path split_file(const std::string& validation, const DatasetOptions& options,
                    const std::vector<std::string>& extensions) {
  const bool training = options.split == Split::train;
  if (options.path.empty()) reject("data.path: expected a file, or a folder with train.{}", extensions.front());
  std::error_code ignored;
  const bool folder = fs::is_directory(options.path, ignored);
  if (!folder && training) return options.path;
  if (const auto file = training ? named_file(options.path, {"train"}, extensions, "path")
                                 : validation_file(validation, options, extensions))
    return *file;
  if (!folder && options.path.stem() != "train")
    reject("data.validation: expected the file to evaluate on, since data.path is the one file {}",
           options.path.native());
  const fs::path where = folder ? options.path : options.path.parent_path();
  const std::vector<std::string> names = training ? std::vector<std::string>{"train"} : validation_file_names;
  reject("{}: expected a file {}, where the extension is one of {}", where.native(),
         fmt::format("{}.{}", fmt::join(names, "." + extensions.front() + ", "), extensions.front()),
         fmt::join(extensions, ", "));
}

TextInputs::TextInputs(SampleFields fields, std::shared_ptr<const Tokenizer> tokenizer, std::int64_t max_length)
    : fields_(std::move(fields)), tokenizer_(std::move(tokenizer)), max_length_(max_length) {}

Vocabulary TextInputs::vocabulary() const {
  Vocabulary vocabulary = tokenizer_->vocabulary();
  vocabulary.tokens = tokenizer_->tokens();
  return vocabulary;
}

std::unique_ptr<const InputReader> text_inputs(const TextOptions& own, const DatasetOptions& options) {
  std::shared_ptr<const Tokenizer> tokenizer = tokenizer_of(own, options);
  SampleFields fields = token_fields(own, tokenizer->vocabulary());
  SampleField spans = per_token("spans", own);
  spans.shape = {own.max_length, 2};
  spans.padding = -1;
  fields.push_back(std::move(spans));
  fields.push_back({.name = "passage",
                    .dtype = DType::u8,
                    .shape = {1},
                    .collation = Collation::packed,
                    .lengths = "passage_offsets"});
  return std::make_unique<TextInputs>(std::move(fields), std::move(tokenizer), own.max_length);
}

namespace {

/// Sets the tokens, and the bytes that each stands for in `text`, whose number in the encoding is `number`.
void set_encoding(const Tokenizer::Encoding& encoding, std::string_view text,
                  const std::vector<Tokenizer::Piece>& pieces, std::int32_t number, Sample& sample) {
  set_tokens(encoded(encoding), sample);
  std::vector<std::int32_t> spans;
  for (const std::int32_t source : encoding.sources) {
    const bool is_of_text = source >= 0 && source % 2 == number;
    const Tokenizer::Piece piece = is_of_text ? pieces[static_cast<std::size_t>(source / 2)] : Tokenizer::Piece{};
    spans.push_back(is_of_text ? static_cast<std::int32_t>(piece.begin) : -1);
    spans.push_back(is_of_text ? static_cast<std::int32_t>(piece.end) : -1);
  }
  set_whole("spans", spans, {std::ssize(encoding.tokens), 2}, sample);
  Tensor passage = sample.make("passage", {std::ssize(text) + 1}, DType::u8);  // never empty
  *std::ranges::copy(text, passage.data<std::uint8_t>()).out = 0;
  sample.set("passage", std::move(passage));
}

}  // namespace

void TextInputs::read(std::string_view input, Sample& sample) const {
  const std::vector<Tokenizer::Piece> pieces = tokenizer_->pieces(input);
  set_encoding(tokenizer_->join(pieces, max_length_), input, pieces, 0, sample);
}

void TextInputs::read_pair(std::string_view input, std::string_view pair, Sample& sample) const {
  const std::vector<Tokenizer::Piece> pieces = tokenizer_->pieces(pair);
  set_encoding(tokenizer_->join(tokenizer_->pieces(input), pieces, max_length_), pair, pieces, 1, sample);
}

}  // namespace lacuna
