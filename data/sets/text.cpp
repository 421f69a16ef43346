// The data set of a user's labelled texts: TSV, CSV and JSON lines. Options that are not given are inferred from the
// file.
#include "core/text.h"
#include "data/class_names.h"
#include "data/text/labelled_text.h"
#include "data/text/split_rows.h"

#include "core/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> text_extensions{"tsv", "csv", "jsonl", "json", "txt"};

struct OwnTextOptions : TextOptions {
  std::string validation, text, pair;
  bool separate = false;
  std::string label, labels, separator;
  double val_fraction = usual_fraction;

  static Fields fields() {
    using O = OwnTextOptions;
    return Fields{field("validation", &O::validation, is_path, validation_file_help),
                  field("text", &O::text, "column of the text, by name or by number from 1; empty: detected"),
                  field("pair", &O::pair, "column of a second text; empty: none"),
                  field("separate", &O::separate,
                        "whether the second text is a sequence of its own, as for sentence embeddings"),
                  field("val_fraction", &O::val_fraction, val_fractions,
                        "fraction of each class held out for evaluation, by the texts and data.seed, if there is no "
                        "file for it"),
                  field("label", &O::label,
                        "column of the label, or several with commas, a 0 or 1 for each class; empty: detected"),
                  field("separator", &O::separator,
                        "separator between the labels of a text that may have several, as `;`; empty: it has one, or a "
                        "list"),
                  field("labels", &O::labels, PathKind::if_text_file,
                        "names of the classes in their order, as `negative, positive`; `numbers`: labels are numbers "
                        "to predict; empty: detected")} +
           rows_of_base<OwnTextOptions, TextOptions>();
  }
};

OwnTextOptions text_options(const DatasetOptions& options) {
  return read_options<OwnTextOptions>("data set text", options.settings);
}

TableFormat format_of(const fs::path& file) {
  const std::string extension = lower_case(file.extension().string());
  if (extension == ".csv") return TableFormat::csv;
  if (extension == ".jsonl" || extension == ".json" || extension == ".ndjson") return TableFormat::json_lines;
  if (extension == ".tsv" || extension == ".txt") return TableFormat::tsv;
  reject("{}: expected a file .tsv, .csv or .jsonl (.txt is read as TSV)", file.native());
}

const std::vector<std::string> text_names{"text",   "sentence", "sentence1", "question", "question1", "premise",
                                          "review", "content",  "document",  "query",    "text1",     "anchor",
                                          "tweet",  "comment",  "message",   "body"};
const std::vector<std::string> pair_names{"pair",      "sentence2", "question2", "hypothesis", "text2",
                                          "text_pair", "answer",    "passage",   "positive"};
const std::vector<std::string> label_names{"label",      "labels",    "class", "category", "score",  "target", "rating",
                                           "gold_label", "sentiment", "stars", "emotion",  "intent", "topic"};

/// A column's number from 1; 0 if it is a name.
std::size_t number_of(const std::string& column) {
  std::size_t number = 0;
  const char* const end = column.data() + column.size();
  const auto [read, error] = std::from_chars(column.data(), end, number);
  return error == std::errc{} && read == end ? number : 0;
}

bool is_word(const std::string& text) { return text.find_first_not_of("0123456789.-") != std::string::npos; }

/// Infers the columns of a file without header: the label column holds numbers or has the fewest distinct values; the
/// others are texts.
void guess_by_content(const fs::path& file, TextColumns& columns) {
  const auto rows = first_rows(file, columns.table.format, 200);
  const std::size_t count = rows.front().size();
  if (columns.separate && count == 2) {  // pairs without a label
    if (columns.text.empty()) columns.text = std::to_string(1);
    if (columns.pair.empty()) columns.pair = std::to_string(2);
    return;
  }
  if (count < 2 || count > 3)
    reject(
        "{}: expected a first row with the names of columns, or two columns (text and label) or three (text, pair, "
        "label), got {} columns without names: data.text and data.label say which they are, by number from 1",
        file.native(), count);
  std::size_t label = count - 1;
  std::pair fewest{true, rows.size() + 1};  // (not all numbers, distinct values)
  for (std::size_t column = 0; column < count; ++column) {
    std::set<std::string> values;
    bool words = false;
    for (const auto& row : rows) {
      if (column >= row.size()) continue;
      values.insert(row[column]);
      words = words || is_word(row[column]);
    }
    if (const std::pair found{words, values.size()}; found <= fewest) {
      fewest = found;
      label = column;
    }
  }
  std::vector<std::string> texts;
  for (std::size_t column = 0; column < count; ++column)
    if (column != label) texts.push_back(std::to_string(column + 1));
  if (columns.label.empty()) columns.label = std::to_string(label + 1);
  if (columns.text.empty()) columns.text = texts.front();
  if (columns.pair.empty() && texts.size() > 1) columns.pair = texts.back();
}

/// Rejects a first row that looks like a header: only its label is not a number, or its label is unique while others
/// repeat.
void refuse_hidden_header(const fs::path& file, const TextColumns& columns) {
  const auto rows = first_rows(file, columns.table.format, 200);
  const std::size_t label = number_of(columns.label) - 1;  // past the end if it is a name
  if (label >= rows.front().size() || !is_word(rows.front()[label])) return;
  std::multiset<std::string> others;
  for (std::size_t i = 1; i < rows.size(); ++i)
    if (label < rows[i].size()) others.insert(rows[i][label]);
  const bool repeat = std::set<std::string>(others.begin(), others.end()).size() < others.size();
  const bool are_numbers = !others.empty() && std::ranges::none_of(others, is_word);
  if (are_numbers || (repeat && !others.contains(rows.front()[label])))
    reject(
        "{}: expected names of columns or a sample in the first row, got `{}`, which may be either: data.text and "
        "data.label say which columns they are, by name if that row names them, or else by number from 1",
        file.native(), fmt::join(rows.front(), "`, `"));
}

/// Whether the columns are two texts without a label.
bool separate_pairs(const TextColumns& columns, const std::vector<std::string>& names) {
  return columns.separate && columns.label.empty() && usual_column(names, label_names).empty();
}

TextColumns columns_of(const OwnTextOptions& own, const fs::path& file) {
  TextColumns columns{.table = {.format = format_of(file)},
                      .text = own.text,
                      .pair = own.pair,
                      .label = own.label,
                      .separate = own.separate,
                      .label_separator = own.separator};
  const std::vector<std::string> names = Table(file, columns.table).columns();
  const auto known = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  if (own.label.find(',') != std::string::npos && !known(own.label)) {
    columns.labels = class_names(own.label);
    for (const std::string& name : columns.labels)
      if (!known(name))
        reject("data.label: expected columns of {}, got {}: there are {}", file.native(), name, fmt::join(names, ", "));
    columns.label.clear();
  }
  // The first row is a header if it contains the given names or a usual one.
  const bool given = !columns.text.empty() || !columns.label.empty();
  const auto names_one = [&](const std::string& column) {
    return !column.empty() && number_of(column) == 0 && known(column);
  };
  const bool named = !columns.labels.empty() || names_one(columns.text) || names_one(columns.label) ||
                     !usual_column(names, text_names).empty() || !usual_column(names, label_names).empty();
  if (columns.table.format != TableFormat::json_lines) columns.table.header = named;
  if (!columns.table.header) {
    if (columns.text.empty() || (columns.label.empty() && columns.labels.empty())) guess_by_content(file, columns);
    return columns;
  }
  const auto name_by_number = [&](std::string& column) {
    const std::size_t number = number_of(column);
    const bool has_order = columns.table.format != TableFormat::json_lines;
    if (has_order && !known(column) && number >= 1 && number <= names.size()) column = names[number - 1];
  };
  name_by_number(columns.text);
  name_by_number(columns.pair);
  name_by_number(columns.label);
  const auto settle = [&](std::string& column, const std::vector<std::string>& usual_names, const char* key) {
    if (column.empty()) column = usual_column(names, usual_names);
    if (column.empty())
      reject("{}: expected data.{}, the name of a column: there are {}", file.native(), key, fmt::join(names, ", "));
  };
  const auto other_than = [&](const std::string& name) { return name == names[0] ? names[1] : names[0]; };
  if (names.size() == 2) {  // one name tells the other
    if (columns.text.empty() && usual_column(names, text_names).empty() && !separate_pairs(columns, names))
      columns.text = other_than(columns.label.empty() ? usual_column(names, label_names) : columns.label);
    if (columns.label.empty() && usual_column(names, label_names).empty() && !columns.separate) {
      if (columns.text.empty()) columns.text = usual_column(names, text_names);
      columns.label = other_than(columns.text);
    }
  }
  settle(columns.text, text_names, "text");
  if (columns.pair.empty() && (!given || columns.separate)) columns.pair = usual_column(names, pair_names);
  if (columns.pair.empty() && columns.separate && names.size() == 2 && columns.label.empty())
    columns.pair = other_than(columns.text);
  const bool may_lack_label = columns.separate && !columns.pair.empty();
  if (may_lack_label && columns.label.empty()) columns.label = usual_column(names, label_names);
  if (columns.labels.empty() && !may_lack_label) settle(columns.label, label_names, "label");
  return columns;
}

KnownLabels labels_in(const std::string& labels) {
  if (labels.empty()) return {};
  if (labels == "numbers") return {.numbers = true};
  return {.classes = class_names(labels)};
}

std::shared_ptr<const LabelledTable> table_of(const OwnTextOptions& own, const DatasetOptions& options) {
  DatasetOptions training = options;  // the training labels define the classes
  training.split = Split::train;
  // Without a file to evaluate on, a part of the training file is held out.
  if (options.split == Split::validation && !validation_file(own.validation, options, text_extensions))
    return table_of(own, training);
  const fs::path file = split_file(own.validation, options, text_extensions);
  const auto read = [&](const KnownLabels& known, const TextColumns& columns) {
    const std::string name = fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{} {} {} {} {}\n{}", file.native(), columns.text,
                                         columns.pair, columns.label, fmt::join(columns.labels, ","),
                                         columns.label_separator, columns.separate, columns.table.header, known.numbers,
                                         known.multi_hot, known.first.value_or(-1), fmt::join(known.classes, "\n"));
    return options.files->get<LabelledTable>(
        name, [&] { return std::make_shared<const LabelledTable>(read_labelled_table(file, columns, known)); });
  };
  KnownLabels known = labels_in(own.labels);
  if (options.split == Split::train || known.numbers) {
    const TextColumns columns = columns_of(own, file);
    const bool guessed = own.text.empty() || own.label.empty();
    if (!columns.table.header && guessed && !known.numbers && known.classes.empty())
      refuse_hidden_header(file, columns);
    return read(known, columns);
  }
  const std::shared_ptr<const LabelledTable> trained = table_of(own, training);
  TextColumns columns = columns_of(own, file);
  if (columns.table.header == trained->columns.table.header) {
    const TableOptions table = columns.table;
    columns = trained->columns;
    columns.table = table;
  }
  return read({.numbers = trained->kind == LabelKind::number,
               .classes = trained->classes,
               .multi_hot = trained->multi_hot,
               .first = trained->first},
              columns);
}

std::string describe_table(const LabelledTable& table) {
  std::string text =
      fmt::format("{}: {}{}, text in `{}`", table.table->path().native(), name_of(table.columns.table.format),
                  table.columns.table.header ? "" : " without a header", table.columns.text);
  if (!table.columns.pair.empty()) text += fmt::format(", pair in `{}`", table.columns.pair);
  if (table.kind == LabelKind::none) return text + ", no labels";
  text += fmt::format(", labels in `{}`: ", table.columns.labels.empty()
                                                ? table.columns.label
                                                : fmt::format("{}", fmt::join(table.columns.labels, "`, `")));
  if (table.kind == LabelKind::number) return text + "numbers to predict";
  constexpr std::size_t shown = 8;
  const std::vector<std::string>& classes = table.classes;
  text += fmt::format(
      "{} classes{}: {}", classes.size(), table.kind == LabelKind::several_classes ? ", any number of them a text" : "",
      fmt::join(classes.begin(), classes.begin() + static_cast<std::ptrdiff_t>(std::min(shown, classes.size())), ", "));
  return text + (classes.size() > shown ? ", ..." : "");
}

std::string describe(const LabelledTable& table, const SplitRows& split) {
  const std::string text = describe_table(table), held = split.description();
  return held.empty() ? text : text + "; " + held;
}

struct OpenedText {
  std::int64_t max_length;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const LabelledTable> table;
  std::vector<std::int32_t> rows;  // of the split
  DatasetInfo info;
};

SplitRows rows_of(const OwnTextOptions& own, const DatasetOptions& options, const LabelledTable& table) {
  const auto name_of = [&](std::int64_t row) {
    const std::vector<Cell> cells = table.table->row(row);
    return cells[1].text + (table.columns.pair.empty() ? "" : "\t" + cells[2].text);
  };
  return split_rows({.file = table.table->path(),
                     .evaluated = validation_file(own.validation, options, text_extensions).value_or(""),
                     .count = table.table->size(),
                     .labels = table.labels,
                     .name_of = name_of},
                    own.val_fraction, options);
}

OpenedText open_text(const DatasetOptions& options) {
  const OwnTextOptions own = text_options(options);
  OpenedText opened{own.max_length, tokenizer_of(own, options), table_of(own, options), {}, {}};
  SplitRows split = rows_of(own, options, *opened.table);
  opened.rows = std::move(split.rows);
  SampleFields fields = token_fields(own, opened.tokenizer->vocabulary().size);
  if (opened.table->columns.separate) {
    if (opened.table->columns.pair.empty()) reject("data.separate: expected data.pair, the column of a second text");
    const SampleFields pair = pair_fields(fields);
    fields.insert(fields.end(), pair.begin(), pair.end());
  }
  if (opened.table->kind != LabelKind::none)
    fields.push_back(label_field(opened.table->kind, std::ssize(opened.table->classes)));
  opened.info = {.name = "text",
                 .size = samples_to_use(options, std::ssize(opened.rows)),
                 .fields = std::move(fields),
                 .classes = opened.table->classes,
                 .description = describe(*opened.table, split),
                 .vocabulary = opened.tokenizer->vocabulary(),
                 .held_out = split.held_out};
  return opened;
}

/// Whether a file is a table: of JSON, rows of values, or one list of them, other than SQuAD's one object.
bool has_rows(const fs::path& file) {
  if (format_of(file) != TableFormat::json_lines || lower_case(file.extension().string()) != ".json") return true;
  try {
    return usual_column(Table(file, {.format = TableFormat::json_lines}).columns(), {"data"}).empty();
  } catch (const Error&) {  // an object over several lines
    return false;
  }
}

/// Recognises a table, or a folder with a training table.
Recognition recognize_text(const fs::path& path, OpenedFiles&) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  for (const char* const extension : {".tsv", ".csv", ".jsonl", ".json", ".ndjson"}) {
    const fs::path file = is_folder ? path / fmt::format("train{}", extension) : path;
    if (lower_case(file.extension().string()) == extension && fs::is_regular_file(file, ignored) && has_rows(file))
      return {.certainty = word_keys(file) ? 0 : 1};
  }
  return {};
}

const RegisterDataset text(
    "text", {.describe = [](const DatasetOptions& options) { return open_text(options).info; },
             .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
               const OpenedText opened = open_text(options);
               return std::make_unique<LabelledText>(opened.info, opened.tokenizer, opened.table, opened.max_length,
                                                     opened.rows);
             },
             .options = OwnTextOptions{},
             .inputs = [](const DatasetOptions& options) { return text_inputs(text_options(options), options); },
             .recognize = recognize_text});

}  // namespace
}  // namespace lacuna
