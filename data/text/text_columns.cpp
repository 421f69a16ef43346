#include "data/text/text_columns.h"

#include "core/error.h"
#include "core/text.h"
#include "data/class_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

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
        "{}: expected a first row with usual names of columns (text, label), or two columns (text and label) or three "
        "(text, pair, label), got {} columns, and `{}` in the first row: data.text and data.label (--column of "
        "predict) say which they are, by name if that row is a header, or else by number from 1",
        file.native(), count, fmt::join(rows.front(), "`, `"));
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

/// Whether the columns are two texts without a label.
bool separate_pairs(const TextColumns& columns, const std::vector<std::string>& names) {
  return columns.separate && columns.label.empty() && usual_column(names, label_names).empty();
}

/// The texts of a file without header, whose other columns are not read.
void take_texts_by_content(const fs::path& file, TextColumns& columns, RowsOf rows) {
  if (!columns.text.empty()) return;
  TextColumns guessed = columns;
  guess_by_content(file, guessed);
  refuse_hidden_header(file, guessed);
  columns.text = guessed.text;
  if (rows == RowsOf::pairs) columns.pair = guessed.pair;
}

}  // namespace

std::optional<TableFormat> table_format(const fs::path& file) {
  const std::string extension = lower_case(file.extension().string());
  if (extension == ".csv") return TableFormat::csv;
  if (extension == ".tsv") return TableFormat::tsv;
  if (extension == ".jsonl" || extension == ".json" || extension == ".ndjson") return TableFormat::json_lines;
  return {};
}

TableFormat format_of_table(const fs::path& file) {
  if (const std::optional<TableFormat> format = table_format(file)) return *format;
  if (lower_case(file.extension().string()) == ".txt") return TableFormat::tsv;
  reject("{}: expected a file .tsv, .csv or .jsonl (.txt is read as TSV)", file.native());
}

std::vector<std::string> sequence_columns(const TextColumns& columns) {
  std::vector<std::string> names{columns.text};
  if (!columns.pair.empty() && !columns.separate) names.push_back(columns.pair);
  return names;
}

// A header where its label alone is no number, or is unique while others repeat.
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
        "data.label (--column of predict) say which columns they are, by name if that row names them, or else by "
        "number from 1",
        file.native(), fmt::join(rows.front(), "`, `"));
}

TextColumns text_columns(const fs::path& file, TextColumns columns, RowsOf rows) {
  columns.table.format = format_of_table(file);
  const bool labelled = rows == RowsOf::labelled;
  const std::vector<std::string> names = Table(file, columns.table).columns();
  const auto known = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  if (columns.label.find(',') != std::string::npos && !known(columns.label)) {
    columns.labels = class_names(columns.label);
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
  if (!columns.table.header && !labelled) {
    take_texts_by_content(file, columns, rows);
    return columns;
  }
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
      reject("{}: expected {}, the name of a column: there are {}", file.native(), key, fmt::join(names, ", "));
  };
  const auto other_than = [&](const std::string& name) { return name == names[0] ? names[1] : names[0]; };
  const bool has_usual_label = !usual_column(names, label_names).empty();
  if (names.size() == 2 && (labelled || has_usual_label)) {  // one name tells the other
    if (columns.text.empty() && usual_column(names, text_names).empty() && !separate_pairs(columns, names))
      columns.text = other_than(columns.label.empty() ? usual_column(names, label_names) : columns.label);
    if (labelled && columns.label.empty() && !has_usual_label && !columns.separate) {
      if (columns.text.empty()) columns.text = usual_column(names, text_names);
      columns.label = other_than(columns.text);
    }
  }
  settle(columns.text, text_names, labelled ? "data.text" : "--column");
  if (!labelled) {
    if (columns.pair.empty() && rows == RowsOf::pairs) columns.pair = usual_column(names, pair_names);
    return columns;
  }
  if (columns.pair.empty() && (!given || columns.separate)) columns.pair = usual_column(names, pair_names);
  if (columns.pair.empty() && columns.separate && names.size() == 2 && columns.label.empty())
    columns.pair = other_than(columns.text);
  const bool may_lack_label = columns.separate && !columns.pair.empty();
  if (may_lack_label && columns.label.empty()) columns.label = usual_column(names, label_names);
  if (columns.labels.empty() && !may_lack_label) settle(columns.label, label_names, "data.label");
  return columns;
}

}  // namespace lacuna
