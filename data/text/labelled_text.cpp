#include "data/text/labelled_text.h"

#include "core/error.h"
#include "core/text.h"
#include "data/text/utf8.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
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

std::string some(const std::vector<std::string>& names) {
  constexpr std::size_t most = 12;
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{}, ... ({} in all)", fmt::join(names.begin(), names.begin() + most, ", "), names.size());
}

/// Labels as written in the file, before their kind is known.
struct RawLabels {
  std::vector<Cell> cells;
  std::vector<std::int64_t> lines;
};

/// Class names in the order of their indices.
std::vector<std::string> classes_in(const RawLabels& raw, const std::filesystem::path& path) {
  std::set<std::string> names;
  for (const Cell& cell : raw.cells) {
    if (cell.is_list)
      names.insert(cell.items.begin(), cell.items.end());
    else
      names.insert(cell.text);
  }
  std::int64_t lowest = std::numeric_limits<std::int64_t>::max(), highest = -1;
  constexpr std::int64_t most = 1'000'000;
  for (const std::string& name : names) {
    const std::optional<std::int64_t> number = number_in<std::int64_t>(name);
    if (!number || *number < 0 || *number >= most || std::to_string(*number) != name)
      return {names.begin(), names.end()};
    lowest = std::min(lowest, *number);
    highest = std::max(highest, *number);
  }
  if (highest - lowest >= 2 * std::ssize(names) + 8)
    reject(
        "{}: expected labels from {} to {}, as {} different ones should be, got {}: data.labels=numbers predicts "
        "numbers as they are, and data.labels with the names of all classes takes them as names",
        path.native(), lowest, lowest + std::ssize(names) - 1, names.size(), highest);
  std::vector<std::string> numbered;
  for (std::int64_t i = lowest; i <= highest; ++i) numbered.push_back(std::to_string(i));
  return numbered;
}

bool are_all_numbers(const RawLabels& raw) {
  return std::ranges::all_of(
      raw.cells, [](const Cell& cell) { return !cell.is_list && number_in<double>(cell.text).has_value(); });
}

/// Whether labels must be regression targets, because some have a fraction.
bool are_fractions(const RawLabels& raw) {
  return are_all_numbers(raw) && std::ranges::any_of(raw.cells, [](const Cell& cell) {
           return !number_in<std::int64_t>(whole_label(cell.text)).has_value();
         });
}

/// Whether a label stands for a missing one, as programs write it.
bool is_missing(const std::string& label, bool among_numbers) {
  const std::string name = lower_case(label);
  return name == "nan" || name == "null" || name == "<na>" || name == "#n/a" ||
         (among_numbers && (name == "none" || name == "na" || name == "n/a"));
}

/// Refuses labels that stand for missing ones, where the classes are to be found out.
void refuse_missing(const RawLabels& raw, const std::filesystem::path& path, const std::string& column) {
  const bool among_numbers = std::ranges::any_of(
      raw.cells, [](const Cell& cell) { return !cell.is_list && number_in<double>(cell.text).has_value(); });
  for (std::size_t i = 0; i < raw.cells.size(); ++i) {
    const Cell& cell = raw.cells[i];
    const auto missing = [&](const std::string& label) { return is_missing(label, among_numbers); };
    const auto item = std::ranges::find_if(cell.items, missing);
    if (!missing(cell.text) && item == cell.items.end()) continue;
    reject("{}:{}: expected a label in `{}`, got {}: leave such rows out, or name it among the classes in data.labels",
           path.native(), raw.lines[i], column, item == cell.items.end() ? cell.text : *item);
  }
}

/// Whether every list has a 0 or 1 for each class. Lists of class numbers have no number twice, and are rising where
/// there are two classes.
bool are_multi_hot(const RawLabels& raw) {
  const std::size_t classes = raw.cells.front().items.size();
  bool no_list_of_numbers = false;
  for (const Cell& cell : raw.cells) {
    if (!cell.is_list || cell.items.size() != classes || classes < 2) return false;
    for (const std::string& item : cell.items)
      if (const std::string flag = whole_label(item); flag != "0" && flag != "1") return false;
    no_list_of_numbers =
        no_list_of_numbers || cell.items.size() > 2 || whole_label(cell.items[0]) >= whole_label(cell.items[1]);
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
             classes.size(), some(classes), flags.size());
    for (std::size_t c = 0; c < flags.size(); ++c) {
      const std::string flag = whole_label(flags[c]);
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

}  // namespace

std::map<std::string, std::int32_t, std::less<>> class_numbers(const std::vector<std::string>& classes) {
  std::map<std::string, std::int32_t, std::less<>> numbers;
  const bool has_numbers =
      std::ranges::any_of(classes, [](const std::string& name) { return number_in<double>(name).has_value(); });
  for (std::size_t i = 0; i < classes.size(); ++i) {
    numbers.emplace(classes[i], static_cast<std::int32_t>(i));
    if (!has_numbers) numbers.emplace(std::to_string(i), static_cast<std::int32_t>(i));
  }
  return numbers;
}

namespace {

/// The labels of a cell as a list, without empty ones.
Cell split_labels(const Cell& cell, const std::string& separator) {
  Cell list{.text = {}, .items = cell.items, .is_list = true};
  if (cell.is_list) return list;
  for (std::size_t begin = 0; begin <= cell.text.size();) {
    const std::size_t end = std::min(cell.text.find(separator, begin), cell.text.size());
    std::string name = cell.text.substr(begin, end - begin);
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
    if (!name.empty()) list.items.push_back(std::move(name));
    begin = end + separator.size();
  }
  return list;
}

}  // namespace

namespace {

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

std::string whole_label(const std::string& label) {
  if (label.find('.') == std::string::npos) return label;
  const std::optional<double> number = number_in<double>(label);
  if (!number || std::floor(*number) != *number || std::abs(*number) > 0x1p53) return label;
  return std::to_string(static_cast<std::int64_t>(*number));
}

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
  if (!known.numbers && is_open) refuse_missing(raw, path, columns.label);
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
        reject("{}: expected columns that are named as the classes {}, got {}", path.native(), some(result.classes),
               some(columns.labels));
    // A column is a class by its name, wherever that stands among the classes.
    take_multi_hot(columns.labels.empty() ? result.classes : columns.labels, path, raw);
  } else if (is_open) {
    for (Cell& cell : raw.cells) {
      cell.text = whole_label(cell.text);
      for (std::string& item : cell.items) item = whole_label(item);
    }
    result.classes = classes_in(raw, path);
  }
  if (is_open && !columns.separate && result.kind == LabelKind::one_class && result.classes.size() < 2)
    reject(
        "{}: expected two classes at least in `{}`, got {} alone: data.label names another column, data.labels all "
        "classes, and data.labels=numbers predicts numbers",
        path.native(), columns.label, result.classes.front());
  const std::map<std::string, std::int32_t, std::less<>> numbers = class_numbers(result.classes);
  const auto number_of = [&](const std::string& name, std::int64_t line) {
    for (const std::string& label : {name, whole_label(name)})
      if (const auto found = numbers.find(label); found != numbers.end()) return found->second;
    reject("{}:{}: expected one of the labels {} in `{}`, got {}; data.labels names all classes", path.native(), line,
           some(result.classes), columns.label, name);
  };
  for (std::size_t i = 0; i < raw.cells.size(); ++i) {
    if (result.kind == LabelKind::one_class) {
      result.labels.push_back(number_of(raw.cells[i].text, raw.lines[i]));
      continue;
    }
    std::vector<std::int32_t>& several = result.several.emplace_back();
    for (const std::string& name : raw.cells[i].items) several.push_back(number_of(name, raw.lines[i]));
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
