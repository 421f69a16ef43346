#include "data/text/labelled_text.h"

#include "core/error.h"
#include "data/labels.h"
#include "data/text/utf8.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <type_traits>

namespace lacuna {
namespace {

template <class T>
std::optional<T> number_in(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(value)) return std::nullopt;
  return value;
}

bool is_blank(std::string_view text) {
  while (!text.empty()) {
    const Character character = first_character(text);
    if (!is_whitespace(character.code)) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

/// Labels as written in the file, before their kind is known.
struct RawLabels {
  std::vector<Cell> cells;
  std::vector<std::int64_t> lines;
};

bool are_all_numbers(const RawLabels& raw) {
  return std::ranges::all_of(
      raw.cells, [](const Cell& cell) { return !cell.is_list && number_in<double>(cell.text).has_value(); });
}

/// Whether labels must be regression targets, because some have a fraction.
bool are_fractions(const RawLabels& raw) {
  return are_all_numbers(raw) && std::ranges::any_of(raw.cells, [](const Cell& cell) {
           return !number_in<std::int64_t>(plain_label(cell.text)).has_value();
         });
}

/// Whether every list has a 0 or 1 for each class. Lists of class numbers have no number twice, and are rising where
/// there are two classes.
bool are_multi_hot(const RawLabels& raw) {
  const std::size_t classes = raw.cells.front().items.size();
  bool no_list_of_numbers = false;
  for (const Cell& cell : raw.cells) {
    if (!cell.is_list || cell.items.size() != classes || classes < 2) return false;
    for (const std::string& item : cell.items)
      if (const std::string flag = plain_label(item); flag != "0" && flag != "1") return false;
    no_list_of_numbers =
        no_list_of_numbers || cell.items.size() > 2 || plain_label(cell.items[0]) >= plain_label(cell.items[1]);
  }
  return no_list_of_numbers;
}

/// Puts the classes that a list marks by 1 in place of its flags.
void take_multi_hot(const std::vector<std::string>& classes, const std::filesystem::path& path, RawLabels& raw) {
  for (std::size_t i = 0; i < raw.cells.size(); ++i) {
    std::vector<std::string> marked;
    const std::vector<std::string>& flags = raw.cells[i].items;
    if (flags.size() != classes.size())
      reject("{}:{}: expected a 0 or 1 for each of {} classes ({}), got {} of them", path.native(), raw.lines[i],
             classes.size(), some_names(classes), flags.size());
    for (std::size_t c = 0; c < flags.size(); ++c) {
      const std::string flag = plain_label(flags[c]);
      if (flag != "0" && flag != "1")
        reject("{}:{}: expected 0 or 1 for the class {}, got {}", path.native(), raw.lines[i], classes[c], flags[c]);
      if (flag == "1") marked.push_back(classes[c]);
    }
    raw.cells[i].items = std::move(marked);
  }
}

/// A list as Python or JSON writes it into a cell, as ['a', 'b'] or [0 1]; nothing for another text.
std::optional<Cell> list_in(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return {};
  text = text.substr(1, text.size() - 2);
  Cell list{.text = {}, .items = {}, .is_list = true};
  const char* const separators = text.find(',') == std::string_view::npos ? " \n" : ",";
  for (std::size_t at = 0; at < text.size();) {
    at = text.find_first_not_of(" \n", at);
    if (at == std::string_view::npos) break;
    const char quote = text[at] == '\'' || text[at] == '"' ? text[at] : '\0';
    const std::size_t begin = at + (quote != '\0' ? 1 : 0);
    std::size_t end = quote != '\0' ? text.find(quote, begin) : text.find_first_of(separators, begin);
    if (end == std::string_view::npos && quote != '\0') return {};
    end = std::min(end, text.size());
    std::string item(text.substr(begin, end - begin));
    if (quote == '\0') item.erase(item.find_last_not_of(' ') + 1);
    list.items.push_back(std::move(item));
    at = text.find_first_of(separators, end);
    at = at == std::string_view::npos ? text.size() : at + 1;
  }
  return list;
}

/// Makes lists of cells if all of them are written as such.
void take_lists(RawLabels& raw) {
  std::vector<Cell> lists;
  for (const Cell& cell : raw.cells) {
    std::optional<Cell> list = cell.is_list ? std::nullopt : list_in(cell.text);
    if (!list) return;
    lists.push_back(std::move(*list));
  }
  raw.cells = std::move(lists);
}

/// The labels of a cell as a list, without empty ones.
Cell split_labels(const Cell& cell, const std::string& separator) {
  Cell list{.text = {}, .items = cell.items, .is_list = true};
  if (cell.is_list) return list;
  for (std::size_t begin = 0; begin <= cell.text.size();) {
    const std::size_t end = std::min(cell.text.find(separator, begin), cell.text.size());
    const std::string_view name = without_blanks(std::string_view(cell.text).substr(begin, end - begin));
    if (!name.empty()) list.items.emplace_back(name);
    begin = end + separator.size();
  }
  return list;
}

/// The labels of all rows, whose texts are checked.
RawLabels scan_rows(Table& table, const TextColumns& columns) {
  const std::filesystem::path& path = table.path();
  const bool has_label = !columns.label.empty() || !columns.labels.empty();
  // Label, text, pair; without a label the text stands in its place. Columns of further classes follow.
  std::vector<std::string> selected{!columns.labels.empty() ? columns.labels.front()
                                    : has_label             ? columns.label
                                                            : columns.text,
                                    columns.text};
  if (!columns.pair.empty()) selected.push_back(columns.pair);
  const std::size_t texts = selected.size();
  for (std::size_t i = 1; i < columns.labels.size(); ++i) selected.push_back(columns.labels[i]);
  table.select(selected);
  RawLabels raw;
  const auto at = [&](std::int64_t line) { return fmt::format("{}:{}", path.native(), line); };
  table.scan([&](const TableRow& row) {
    if (columns.irregular && (row.columns < std::ssize(table.columns()) || row.cells.front().text.empty()))
      return false;
    for (std::size_t i = 1; i < texts; ++i) {
      if (row.cells[i].is_list) reject("{}: expected a text in `{}`, got a list", at(row.line), selected[i]);
      if (!columns.irregular && is_blank(row.cells[i].text))
        reject("{}: expected a text in `{}`, got none", at(row.line), selected[i]);
    }
    Cell label = row.cells.front();
    if (!columns.labels.empty()) {
      label = {.text = {}, .items = {row.cells.front().text}, .is_list = true};
      for (std::size_t i = texts; i < row.cells.size(); ++i) label.items.push_back(row.cells[i].text);
    } else if (!columns.label_separator.empty()) {
      label = split_labels(label, columns.label_separator);
    }
    label.text = without_blanks(label.text);
    if (has_label && !label.is_list && label.text.empty())
      reject("{}: expected a label in `{}`, got none: of {} columns the row has {}", at(row.line), columns.label,
             table.columns().size(), row.columns);
    if (!raw.cells.empty() && label.is_list != raw.cells.front().is_list)
      reject("{}: expected {} in `{}`, as in the rows before, got {}", at(row.line),
             label.is_list ? "one label" : "a list of labels", columns.label, label.is_list ? "a list" : "one label");
    raw.cells.push_back(has_label ? std::move(label) : Cell{});
    raw.lines.push_back(row.line);
    return true;
  });
  if (raw.cells.empty()) reject("{}: expected rows of text, got none", path.native());
  return raw;
}

std::vector<float> numbers_in(const RawLabels& raw, const std::filesystem::path& path, const std::string& column) {
  std::vector<float> numbers;
  for (std::size_t i = 0; i < raw.cells.size(); ++i) {
    const std::optional<float> number = raw.cells[i].is_list ? std::nullopt : number_in<float>(raw.cells[i].text);
    if (!number)
      reject("{}:{}: expected a number in `{}`, got {}", path.native(), raw.lines[i], column, raw.cells[i].text);
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace

LabelledTable read_labelled_table(const std::filesystem::path& path, const TextColumns& columns,
                                  const KnownLabels& known) {
  LabelledTable result;
  result.columns = columns;
  result.classes = known.classes;
  const auto table = std::make_shared<Table>(path, columns.table);
  RawLabels raw = scan_rows(*table, columns);
  result.table = table;
  if (columns.label.empty() && columns.labels.empty()) {
    result.kind = LabelKind::none;
    return result;
  }
  const bool is_open = known.classes.empty();
  if (!known.numbers && columns.table.format != TableFormat::json_lines) take_lists(raw);
  if (known.numbers || (is_open && are_fractions(raw))) {
    result.kind = LabelKind::number;
    result.numbers = numbers_in(raw, path, columns.label);
    return result;
  }
  result.kind = raw.cells.front().is_list ? LabelKind::several_classes : LabelKind::one_class;
  if (!columns.labels.empty() && is_open) result.classes = columns.labels;
  result.multi_hot = known.multi_hot || !columns.labels.empty() || are_multi_hot(raw);
  if (result.multi_hot) {
    if (result.classes.empty())
      for (std::size_t i = 0; i < raw.cells.front().items.size(); ++i) result.classes.push_back(std::to_string(i));
    for (const std::string& column : columns.labels)
      if (std::ranges::find(result.classes, column) == result.classes.end())
        reject("{}: expected columns that are named as the classes {}, got {}", path.native(),
               some_names(result.classes), some_names(columns.labels));
    // A column is a class by its name, wherever that stands among the classes.
    take_multi_hot(columns.labels.empty() ? result.classes : columns.labels, path, raw);
  }
  WrittenLabels written;
  for (std::size_t i = 0; i < raw.cells.size(); ++i) {
    const Cell& cell = raw.cells[i];
    if (!cell.is_list) written.try_emplace(cell.text, static_cast<std::int64_t>(i));
    for (const std::string& item : cell.items) written.try_emplace(item, static_cast<std::int64_t>(i));
  }
  const LabelClasses classes({.names = result.classes, .first = known.first}, written,
                             {.file = path.native(),
                              .where =
                                  [&](std::int64_t row) {
                                    return fmt::format("{}:{}", path.native(),
                                                       raw.lines[static_cast<std::size_t>(row)]);
                                  },
                              .column = fmt::format(" in `{}`", columns.label)});
  result.classes = classes.names();
  result.first = classes.known().first;
  if (is_open && !columns.separate && result.kind == LabelKind::one_class && result.classes.size() < 2)
    reject(
        "{}: expected two classes at least in `{}`, got {} alone: data.label names another column, data.labels all "
        "classes, and data.labels=numbers predicts numbers",
        path.native(), columns.label, result.classes.front());
  for (std::size_t i = 0; i < raw.cells.size(); ++i) {
    if (result.kind == LabelKind::one_class) {
      result.labels.push_back(classes[raw.cells[i].text]);
      continue;
    }
    std::vector<std::int32_t>& several = result.several.emplace_back();
    for (const std::string& name : raw.cells[i].items) several.push_back(classes[name]);
  }
  return result;
}

SampleField label_field(LabelKind kind, std::int64_t classes) {
  switch (kind) {
    case LabelKind::one_class:
      return class_field(classes);
    case LabelKind::several_classes:
      return {.name = "labels", .kind = FieldKind::label, .dtype = DType::f32, .shape = {classes}};
    case LabelKind::number:
    case LabelKind::none:
      break;
  }
  return {.name = "labels", .dtype = DType::f32, .shape = {}};
}

LabelledText::LabelledText(DatasetInfo info, std::shared_ptr<const Tokenizer> tokenizer,
                           std::shared_ptr<const LabelledTable> table, std::int64_t max_length,
                           std::vector<std::int32_t> rows)
    : TextDataset(std::move(info), std::move(tokenizer)),
      table_(std::move(table)),
      max_length_(max_length),
      rows_(std::move(rows)) {}

EncodedText LabelledText::encode(std::int64_t index) const {
  const std::vector<Cell> cells =
      table_->table->row(static_cast<std::int64_t>(row_of(index)));  // label, text, pair, and more labels
  if (table_->columns.pair.empty()) return encoded(tokenizer().encode(cells[1].text, max_length_));
  if (table_->columns.separate) {
    EncodedText text = encoded(tokenizer().encode(cells[1].text, max_length_));
    text.pair = tokenizer().encode(cells[2].text, max_length_).tokens;
    return text;
  }
  return encoded(tokenizer().encode(cells[1].text, cells[2].text, max_length_));
}

std::string LabelledText::origin(std::int64_t index) const {
  const std::vector<Cell> cells = table_->table->row(static_cast<std::int64_t>(row_of(index)));
  std::string line;
  for (std::size_t i = 1; i < (table_->columns.pair.empty() ? 2U : 3U); ++i)
    line += fmt::format("{}\"{}\"", i == 1 ? "" : " ", beginning_of(cells[i].text, 60));
  return line;
}

std::int64_t LabelledText::label(std::int64_t index) const {
  if (table_->kind != LabelKind::one_class) return TextDataset::label(index);
  return table_->labels[row_of(index)];
}

void LabelledText::set_targets(const EncodedText&, Sample& sample) const {
  if (table_->kind == LabelKind::none) return;
  const std::size_t index = row_of(sample.index);
  if (table_->kind == LabelKind::one_class) {
    set_whole("labels", std::span(table_->labels).subspan(index, 1), {}, sample);
    return;
  }
  const bool number = table_->kind == LabelKind::number;
  Tensor labels = sample.make("labels", number ? Shape{} : Shape{std::ssize(table_->classes)}, DType::f32);
  if (number) {
    *labels.data<float>() = table_->numbers[index];
  } else {
    labels.fill(0);
    for (const std::int32_t one : table_->several[index]) labels.data<float>()[one] = 1;
  }
  sample.set("labels", std::move(labels));
}

}  // namespace lacuna
