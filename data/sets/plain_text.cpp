// The data set of unlabelled lines of text, for masked language modelling.
#include "data/files/picture_names.h"
#include "data/text/split_rows.h"
#include "data/text/table.h"
#include "data/text/text_dataset.h"
#include "data/text/utf8.h"
#include "data/text/word_columns.h"

#include "core/error.h"

#include <utility>

namespace lacuna {
namespace {

struct PlainOptions : TextOptions {
  std::string validation;
  double val_fraction = usual_fraction;

  static Fields fields() {
    return Fields{field("validation", &PlainOptions::validation, is_path, validation_file_help),
                  field("val_fraction", &PlainOptions::val_fraction, val_fractions, text_fraction_help)} +
           rows_of_base<PlainOptions, TextOptions>();
  }
};

class PlainText final : public TextDataset {
 public:
  PlainText(DatasetInfo info, std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const Table> lines,
            std::int64_t max_length, std::vector<std::int32_t> rows)
      : TextDataset(std::move(info), std::move(tokenizer)),
        lines_(std::move(lines)),
        max_length_(max_length),
        rows_(std::move(rows)) {}

 private:
  EncodedText encode(std::int64_t index) const override {
    return encoded(tokenizer().encode(lines_->row(rows_[static_cast<std::size_t>(index)]).front().text, max_length_));
  }
  void set_targets(const EncodedText&, Sample&) const override {}

  std::shared_ptr<const Table> lines_;
  std::int64_t max_length_;
  std::vector<std::int32_t> rows_;  // [samples]
};

const std::vector<std::string> line_extensions{"txt"};

std::shared_ptr<const Table> lines_of(const PlainOptions& own, const DatasetOptions& options) {
  const std::filesystem::path file = source_file(own.validation, options, line_extensions);
  return options.files->get<Table>(file.native(), [&] {
    const auto table = std::make_shared<Table>(file, TableOptions{.format = TableFormat::lines, .header = false});
    table->select({"1"});
    table->scan([](const TableRow&) { return true; });
    return table;
  });
}

struct OpenedLines {
  std::int64_t max_length;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const Table> lines;
  std::vector<std::int32_t> rows;  // of the split
  DatasetInfo info;
};

OpenedLines open_lines(const DatasetOptions& options) {
  const auto own = read_options<PlainOptions>("data set plain_text", options.settings);
  OpenedLines opened{own.max_length, tokenizer_of(own, options), lines_of(own, options), {}, {}};
  SplitRows split = split_rows({.file = opened.lines->path(),
                                .evaluated = validation_file(own.validation, options, line_extensions).value_or(""),
                                .count = opened.lines->size(),
                                .name_of = [&](std::int64_t row) { return opened.lines->row(row).front().text; }},
                               own.val_fraction, options);
  opened.rows = std::move(split.rows);
  opened.info = {.name = "plain_text",
                 .size = samples_to_use(options, std::ssize(opened.rows)),
                 .fields = token_fields(own, opened.tokenizer->vocabulary()),
                 .description = split.description(),
                 .vocabulary = opened.tokenizer->vocabulary(),
                 .held_out = split.held_out};
  return opened;
}

/// Recognises lines that are no table, no list of pictures and no words with tags, or a folder of files of lines.
Recognition recognize_lines(const std::filesystem::path& path, OpenedFiles&) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const bool is_folder = fs::is_directory(path, failed);
  const fs::path file = is_folder ? path / "train.txt" : path;
  if (file.extension() != ".txt" || !fs::is_regular_file(file, failed)) return {};
  for (fs::directory_iterator entry(path, failed), end; is_folder && !failed && entry != end; entry.increment(failed))
    if (entry->path().extension() != ".txt") return {};
  try {
    TextFile text(file);
    constexpr int looked_at = 200;
    std::string line;
    int lines = 0;
    while (lines < looked_at && text.next(line)) {
      const std::string_view first = std::string_view(line).substr(0, line.find(' '));
      if (line.find_first_of(std::string_view("\t\0", 2)) != std::string::npos || is_image_name(first) ||
          find_broken_utf8(line) != std::string::npos)
        return {};
      ++lines;
    }
    return {.certainty = lines > 0 && !has_entity_columns(file) ? 1 : 0};
  } catch (const Error&) {  // no text
    return {};
  }
}

const RegisterDataset plain_text("plain_text",
                                 {.describe = [](const DatasetOptions& options) { return open_lines(options).info; },
                                  .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                                    const OpenedLines opened = open_lines(options);
                                    return std::make_unique<PlainText>(opened.info, opened.tokenizer, opened.lines,
                                                                       opened.max_length, opened.rows);
                                  },
                                  .options = PlainOptions{},
                                  .recognize = recognize_lines});

}  // namespace
}  // namespace lacuna
