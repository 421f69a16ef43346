#include "data/text/labelled_text.h"

#include "core/error.h"
#include "data/text/utf8.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

namespace lacuna {
namespace {

template <class T>
std::optional<T> number_in(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
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
  std::int64_t highest = -1;
  constexpr std::int64_t most = 1'000'000;
  for (const std::string& name : names) {
    const std::optional<std::int64_t> number = number_in<std::int64_t>(name);
    if (!number || *number < 0 || *number >= most || std::to_string(*number) != name)
      return {names.begin(), names.end()};
    highest = std::max(highest, *number);
  }
  if (highest >= 2 * std::ssize(names) + 8)
    reject(
        "{}: expected labels from 0 to {}, as {} different ones should be, got {}: data.labels=numbers predicts "
        "numbers as they are",
        path.native(), names.size() - 1, names.size(), highest);
  std::vector<std::string> numbered;
  for (std::int64_t i = 0; i <= highest; ++i) numbered.push_back(std::to_string(i));
  return numbered;
}

/// Whether labels must be regression targets, because some have a fraction.
bool are_fractions(const RawLabels& raw) {
  bool fraction = false;
  for (const Cell& cell : raw.cells) {
    if (cell.is_list || !number_in<double>(cell.text)) return false;
    fraction = fraction || !number_in<std::int64_t>(cell.text);
  }
  return fraction;
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

LabelledTable read_labelled_table(const std::filesystem::path& path, const TextColumns& columns,
                                  const KnownLabels& known) {
  LabelledTable result;
  result.columns = columns;
  result.classes = known.classes;
  const auto table = std::make_shared<Table>(path, columns.table);
  std::vector<std::string> selected{columns.label, columns.text};
  if (!columns.pair.empty()) selected.push_back(columns.pair);
  table->select(selected);
  RawLabels raw;
  const auto at = [&](std::int64_t line) { return fmt::format("{}:{}", path.native(), line); };
  table->scan([&](const TableRow& row) {
    if (columns.irregular && (row.columns < std::ssize(table->columns()) || row.cells.front().text.empty()))
      return false;
    for (std::size_t i = 1; i < selected.size(); ++i) {
      if (row.cells[i].is_list) reject("{}: expected a text in `{}`, got a list", at(row.line), selected[i]);
      if (!columns.irregular && is_blank(row.cells[i].text))
        reject("{}: expected a text in `{}`, got none", at(row.line), selected[i]);
    }
    const Cell label =
        columns.label_separator.empty() ? row.cells.front() : split_labels(row.cells.front(), columns.label_separator);
    if (!label.is_list && label.text.empty())
      reject("{}: expected a label in `{}`, got none: of {} columns the row has {}", at(row.line), columns.label,
             table->columns().size(), row.columns);
    if (!raw.cells.empty() && label.is_list != raw.cells.front().is_list)
      reject("{}: expected {} in `{}`, as in the rows before, got {}", at(row.line),
             label.is_list ? "one label" : "a list of labels", columns.label, label.is_list ? "a list" : "one label");
    raw.cells.push_back(label);
    raw.lines.push_back(row.line);
    return true;
  });
  if (raw.cells.empty()) reject("{}: expected rows of text, got none", path.native());
  result.table = table;

  if (known.numbers || (known.classes.empty() && are_fractions(raw))) {
    result.kind = LabelKind::number;
    for (std::size_t i = 0; i < raw.cells.size(); ++i) {
      const std::optional<float> number = raw.cells[i].is_list ? std::nullopt : number_in<float>(raw.cells[i].text);
      if (!number || !std::isfinite(*number))
        reject("{}: expected a number in `{}`, got {}", at(raw.lines[i]), columns.label, raw.cells[i].text);
      result.numbers.push_back(*number);
    }
    return result;
  }
  if (result.classes.empty()) result.classes = classes_in(raw, path);
  const std::map<std::string, std::int32_t, std::less<>> numbers = class_numbers(result.classes);
  const auto number_of = [&](const std::string& name, std::int64_t line) {
    if (const auto found = numbers.find(name); found != numbers.end()) return found->second;
    reject("{}: expected one of the labels {} in `{}`, got {}", at(line), some(result.classes), columns.label, name);
  };
  result.kind = raw.cells.front().is_list ? LabelKind::several_classes : LabelKind::one_class;
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
      break;
  }
  return {.name = "labels", .dtype = DType::f32, .shape = {}};
}

LabelledText::LabelledText(DatasetInfo info, std::shared_ptr<const Tokenizer> tokenizer,
                           std::shared_ptr<const LabelledTable> table, std::int64_t max_length)
    : TextDataset(std::move(info), std::move(tokenizer)), table_(std::move(table)), max_length_(max_length) {}

EncodedText LabelledText::encode(std::int64_t index) const {
  const std::vector<Cell> cells = table_->table->row(index);  // label, text, pair
  if (cells.size() < 3) return encoded(tokenizer().encode(cells[1].text, max_length_));
  if (table_->columns.separate) {
    EncodedText text = encoded(tokenizer().encode(cells[1].text, max_length_));
    text.pair = tokenizer().encode(cells[2].text, max_length_).tokens;
    return text;
  }
  return encoded(tokenizer().encode(cells[1].text, cells[2].text, max_length_));
}

std::int64_t LabelledText::label(std::int64_t index) const {
  if (table_->kind != LabelKind::one_class) return TextDataset::label(index);
  return table_->labels[static_cast<std::size_t>(index)];
}

void LabelledText::set_targets(const EncodedText&, Sample& sample) const {
  const auto index = static_cast<std::size_t>(sample.index);
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
