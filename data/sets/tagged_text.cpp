// The data set of words with one label each (named entities): JSON lines with a list of words and a list of labels, or
// CoNLL's columns.
#include "data/class_names.h"
#include "data/labels.h"
#include "data/text/entity_labels.h"
#include "data/text/split_rows.h"
#include "data/text/table.h"
#include "data/text/text_dataset.h"
#include "data/text/word_columns.h"

#include "core/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

constexpr std::int32_t ignored = LabelClasses::none;  // the label of tokens that loss and metrics ignore

struct TaggedOptions : TextOptions {
  std::string validation, words = "tokens", tags = "tags", labels;
  double val_fraction = usual_fraction;

  static Fields fields() {
    return Fields{field("validation", &TaggedOptions::validation, is_path, validation_file_help),
                  field("val_fraction", &TaggedOptions::val_fraction, val_fractions, text_fraction_help),
                  field("words", &TaggedOptions::words,
                        "key of the list of words; of CoNLL's columns the number, from 1, or the first"),
                  field("tags", &TaggedOptions::tags,
                        "key of the list of labels: a name or number per word, -100: none; of CoNLL's columns the "
                        "number, from 1, or the last"),
                  field("labels", &TaggedOptions::labels, PathKind::if_text_file,
                        "names of the labels in their order, as `O, B-PER, I-PER`; empty: those of the file")} +
           rows_of_base<TaggedOptions, TextOptions>();
  }
};

TaggedOptions tagged_options(const DatasetOptions& options) {
  return read_options<TaggedOptions>("data set tagged_text", options.settings);
}

/// A checked file. `labels` concatenates the word labels of all samples.
struct TaggedFile {
  fs::path path{};
  std::function<std::vector<std::string>(std::int64_t sample)> words;
  KnownClasses classes{};
  std::vector<std::int32_t> labels{};
  std::vector<std::int64_t> first{0};  // [samples + 1]: start of each sample's labels
  std::int64_t unlabelled = 0;         // words without a label

  std::int64_t size() const { return std::ssize(first) - 1; }
};

/// The tags of a file before they are numbered, and the line of each.
struct Tags {
  std::vector<std::string> names{};
  std::vector<std::int64_t> lines{};
};

/// JSON lines, whatever the name of the file is.
bool is_json(const fs::path& file) {
  if (file.extension() == ".jsonl" || file.extension() == ".json") return true;
  TextFile text(file);
  std::string line;
  while (text.next(line))
    if (const std::size_t begin = line.find_first_not_of(" \t"); begin != std::string::npos)
      return line[begin] == '{' && line.find_first_not_of(" \t", begin + 1) == line.find('"', begin);
  return false;
}

TaggedFile read_json(const fs::path& file, const TaggedOptions& own, Tags& all) {
  const std::string &words = own.words, &tags = own.tags;
  const auto table = std::make_shared<Table>(file, TableOptions{.format = TableFormat::json_lines});
  table->select({words, tags});
  TaggedFile result{.words = [table](std::int64_t sample) { return table->row(sample)[0].items; }};
  table->scan([&](const TableRow& row) {
    const Cell &word = row.cells[0], &tag = row.cells[1];
    if (!word.is_list || !tag.is_list || word.items.size() != tag.items.size() || word.items.empty())
      reject("{}:{}: expected a list of words in `{}` and a list of as many labels in `{}`, got {} and {}",
             file.native(), row.line, words, tags, word.is_list ? fmt::format("{}", word.items.size()) : "no list",
             tag.is_list ? fmt::format("{}", tag.items.size()) : "no list");
    all.names.insert(all.names.end(), tag.items.begin(), tag.items.end());
    all.lines.resize(all.names.size(), row.line);
    result.first.push_back(std::ssize(all.names));
    return true;
  });
  return result;
}

TaggedFile read_columns(const fs::path& file, const TaggedOptions& own, Tags& all) {
  const TaggedOptions absent;
  const auto column = [&](std::string_view setting, const std::string& given, const std::string& unsaid) {
    if (given == unsaid) return std::int64_t{0};
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), number);
    if (error != std::errc{} || end != given.data() + given.size() || number < 1)
      reject("data.{}: expected the number of a column of {}, from 1, got {}", setting, file.native(), given);
    return number;
  };
  const auto columns = std::make_shared<WordColumns>(file, column("words", own.words, absent.words),
                                                     column("tags", own.tags, absent.tags));
  TaggedFile result{.words = [columns](std::int64_t sentence) { return columns->words(sentence); }};
  columns->scan([&](std::int64_t line, std::string tag, bool is_last) {
    all.names.push_back(std::move(tag));
    all.lines.push_back(line);
    if (is_last) result.first.push_back(std::ssize(all.names));
  });
  return result;
}

TaggedFile read_tagged(const fs::path& file, const TaggedOptions& own, const KnownClasses& known) {
  Tags all;
  TaggedFile result = is_json(file) ? read_json(file, own, all) : read_columns(file, own, all);
  if (all.names.empty()) reject("{}: expected words with labels, got none", file.native());
  WrittenLabels written;
  for (std::size_t i = 0; i < all.names.size(); ++i) written.try_emplace(all.names[i], static_cast<std::int64_t>(i));
  const LabelClasses classes(
      known, written,
      {.file = file.native(),
       .where =
           [&](std::int64_t i) { return fmt::format("{}:{}", file.native(), all.lines[static_cast<std::size_t>(i)]); },
       .column = fmt::format(" in `{}`", own.tags),
       .may_lack = true});
  for (const std::string& name : all.names) result.labels.push_back(classes[name]);
  result.unlabelled = std::ranges::count(result.labels, LabelClasses::none);
  result.classes = classes.known();
  result.path = file;
  return result;
}

const std::vector<std::string> tagged_extensions{"jsonl", "json", "conll", "bio", "iob", "iob2", "txt", "tsv"};

std::shared_ptr<const TaggedFile> file_of(const TaggedOptions& own, const DatasetOptions& options) {
  KnownClasses known{.names = class_names(own.labels)};
  if (options.split == Split::validation) {
    DatasetOptions training = options;
    training.split = Split::train;
    known = file_of(own, training)->classes;
  }
  const fs::path file = source_file(own.validation, options, tagged_extensions);
  return options.files->get<TaggedFile>(
      fmt::format("{}\n{} {} {}\n{}", file.native(), own.words, own.tags, known.first.value_or(-1),
                  fmt::join(known.names, "\n")),
      [&] { return std::make_shared<const TaggedFile>(read_tagged(file, own, known)); });
}

/// Gives the first piece of a word its label; other pieces and special tokens get `ignored`.
class TaggedText final : public TextDataset {
 public:
  TaggedText(DatasetInfo info, std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const TaggedFile> file,
             std::int64_t max_length, std::vector<std::int32_t> rows)
      : TextDataset(std::move(info), std::move(tokenizer)),
        file_(std::move(file)),
        max_length_(max_length),
        rows_(std::move(rows)) {}

 private:
  EncodedText encode(std::int64_t index) const override {
    const std::int32_t row = rows_[static_cast<std::size_t>(index)];
    const std::vector<std::string> words = file_->words(row);
    const std::int64_t first = file_->first[static_cast<std::size_t>(row)];
    std::vector<Tokenizer::Piece> pieces;
    std::vector<std::int32_t> labels;  // per piece
    for (std::size_t word = 0; word < words.size(); ++word) {
      // As within a text: byte-level tokens of a word hold the space before it.
      const std::vector<Tokenizer::Piece> of_word = tokenizer().pieces(word == 0 ? words[word] : " " + words[word]);
      for (std::size_t i = 0; i < of_word.size(); ++i)
        labels.push_back(i == 0 ? file_->labels[static_cast<std::size_t>(first) + word] : ignored);
      pieces.insert(pieces.end(), of_word.begin(), of_word.end());
    }
    const Tokenizer::Encoding encoding = tokenizer().join(pieces, max_length_);
    EncodedText text = encoded(encoding);
    for (const std::int32_t source : encoding.sources)
      text.labels.push_back(source < 0 ? ignored : labels[static_cast<std::size_t>(source / 2)]);
    return text;
  }
  void set_targets(const EncodedText& text, Sample& sample) const override {
    set_whole("labels", text.labels, {std::ssize(text.labels)}, sample);
  }

  std::shared_ptr<const TaggedFile> file_;
  std::int64_t max_length_;
  std::vector<std::int32_t> rows_;  // [samples]
};

struct OpenedTagged {
  std::int64_t max_length;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const TaggedFile> file;
  std::vector<std::int32_t> rows;  // of the split
  DatasetInfo info;
};

OpenedTagged open_tagged(const DatasetOptions& options) {
  const TaggedOptions own = tagged_options(options);
  OpenedTagged opened{own.max_length, tokenizer_of(own, options), file_of(own, options), {}, {}};
  SampleFields fields = token_fields(own, opened.tokenizer->vocabulary());
  SampleField labels = per_token("labels", own);
  labels.below = std::ssize(opened.file->classes.names);
  labels.padding = ignored;
  fields.push_back(labels);
  const TaggedFile& file = *opened.file;
  SplitRows split =
      split_rows({.file = file.path,
                  .evaluated = validation_file(own.validation, options, tagged_extensions).value_or(""),
                  .count = file.size(),
                  .name_of = [&](std::int64_t row) { return fmt::format("{}", fmt::join(file.words(row), " ")); }},
                 own.val_fraction, options);
  opened.rows = std::move(split.rows);
  opened.info = {.name = "tagged_text",
                 .size = samples_to_use(options, std::ssize(opened.rows)),
                 .fields = std::move(fields),
                 .classes = file.classes.names,
                 .vocabulary = opened.tokenizer->vocabulary(),
                 .held_out = split.held_out};
  std::vector<std::string> description;
  if (file.unlabelled > 0)
    description.push_back(
        fmt::format("{} of {} words have no label ({})", file.unlabelled, file.labels.size(), ignored));
  if (split.held_out) description.push_back(split.description());
  opened.info.description = fmt::format("{}", fmt::join(description, "; "));
  if (are_entity_labels(file.classes.names)) opened.info.metrics = {"accuracy", "f1", "precision", "recall"};
  return opened;
}

/// Recognises JSON lines of words and tags, CoNLL's columns, or a folder with such a training file.
Recognition recognize_tagged(const fs::path& path, OpenedFiles&) {
  std::error_code unused;
  const bool is_folder = fs::is_directory(path, unused);
  for (const char* const extension : {".jsonl", ".json"}) {
    const fs::path file = is_folder ? path / fmt::format("train{}", extension) : path;
    if (file.extension() != extension || !fs::is_regular_file(file, unused)) continue;
    if (const std::optional<WordKeys> keys = word_keys(file))
      return {.certainty = 1, .settings = {{"words", keys->words}, {"tags", keys->tags}}};
  }
  for (const char* const extension : {".conll", ".bio", ".iob", ".iob2", ".txt", ".tsv"}) {
    const fs::path file = is_folder ? path / fmt::format("train{}", extension) : path;
    if (file.extension() != extension || !fs::is_regular_file(file, unused)) continue;
    const bool may_be_other = file.extension() == ".txt" || file.extension() == ".tsv";
    if (!may_be_other || has_entity_columns(file)) return {.certainty = 2};
  }
  return {};
}

const RegisterDataset tagged_text("tagged_text",
                                  {.describe = [](const DatasetOptions& options) { return open_tagged(options).info; },
                                   .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                                     const OpenedTagged opened = open_tagged(options);
                                     return std::make_unique<TaggedText>(opened.info, opened.tokenizer, opened.file,
                                                                         opened.max_length, opened.rows);
                                   },
                                   .options = TaggedOptions{},
                                   .recognize = recognize_tagged});

}  // namespace
}  // namespace lacuna
