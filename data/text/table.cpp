#include "data/text/table.h"

#include "core/error.h"
#include "core/json.h"
#include "core/text.h"
#include "data/text/json_list.h"
#include "data/text/utf8.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace lacuna {
namespace {

std::string place_of(const std::filesystem::path& path, std::int64_t line) {
  return fmt::format("{}:{}", path.native(), line);
}

void check_text(std::string_view text, const std::filesystem::path& path, std::int64_t line) {
  const std::size_t broken = find_broken_utf8(text);
  if (broken != std::string_view::npos)
    reject(
        "{}: expected text in UTF-8, got byte 0x{:02x} at byte {} of the line: `iconv -f {} -t UTF-8 {}` converts it",
        place_of(path, line), static_cast<unsigned char>(text[broken]), broken + 1,
        static_cast<unsigned char>(text[broken]) >= 0xfe ? "UTF-16" : "WINDOWS-1252", path.native());
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)
    reject(
        "{}: expected text, got a zero byte at byte {} of the line: no text file, or UTF-16, which `iconv -f UTF-16 -t "
        "UTF-8 {}` converts",
        place_of(path, line), zero + 1, path.native());
}

std::vector<std::string> split_tabs(const std::string& record) {
  std::vector<std::string> fields;
  for (std::size_t begin = 0;;) {
    const std::size_t end = std::min(record.find('\t', begin), record.size());
    fields.push_back(record.substr(begin, end - begin));
    if (end == record.size()) return fields;
    begin = end + 1;
  }
}

std::vector<std::string> split_csv(const std::string& record, char separator, const std::filesystem::path& path,
                                   std::int64_t line) {
  std::vector<std::string> fields;
  for (std::size_t at = 0;;) {
    std::string& field = fields.emplace_back();
    if (at < record.size() && record[at] == '"') {
      for (++at;; ++at) {
        const std::size_t quote = record.find('"', at);
        if (quote == std::string::npos)
          reject("{}: expected a quote that ends the field {}", place_of(path, line), fields.size());
        field.append(record, at, quote - at);
        at = quote + 1;
        if (at == record.size() || record[at] != '"') break;
        field.push_back('"');
      }
      if (at < record.size() && record[at] != separator)
        reject("{}: expected a {} behind the quoted field {}, got `{}`", place_of(path, line),
               separator == ',' ? "comma" : fmt::format("`{}`", separator), fields.size(), record.substr(at, 1));
    } else {
      const std::size_t end = std::min(record.find(separator, at), record.size());
      field = record.substr(at, end - at);
      if (field.find('"') != std::string::npos)
        reject("{}: expected quotes around the whole field {} (and those within it doubled), got `{}`",
               place_of(path, line), fields.size(), field.substr(0, 40));
      at = end;
    }
    if (at == record.size()) return fields;
    ++at;
  }
}

nlohmann::json parse_object(const std::string& record, const std::filesystem::path& path, std::int64_t line) {
  check_json_depth(record, place_of(path, line));
  try {
    nlohmann::json value = nlohmann::json::parse(record);
    if (!value.is_object())
      reject("{}: expected an object, as {{\"text\": \"...\", \"label\": 0}}, got {}", place_of(path, line),
             value.type_name());
    return value;
  } catch (const nlohmann::json::exception& error) {
    reject("{}: expected a JSON object on each line, or one list of objects: {}", place_of(path, line), error.what());
  }
}

std::string scalar(const nlohmann::json& value, const std::string& name, const std::filesystem::path& path,
                   std::int64_t line) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  reject("{}: expected a text or a number in `{}`, got {}{}", place_of(path, line), name, value.type_name(),
         value.is_null() ? ": leave rows without a value out" : "");
}

Cell cell_of(const nlohmann::json& object, const std::string& name, const std::filesystem::path& path,
             std::int64_t line) {
  const auto found = object.find(name);
  if (found == object.end()) {
    std::vector<std::string> keys;
    for (const auto& entry : object.items()) keys.push_back(entry.key());
    reject("{}: expected `{}`, got {}", place_of(path, line), name,
           keys.empty() ? "nothing" : fmt::format("{}", fmt::join(keys, ", ")));
  }
  Cell cell;
  if (found->is_array()) {
    cell.is_list = true;
    for (const auto& item : *found) cell.items.push_back(scalar(item, name, path, line));
  } else {
    cell.text = scalar(*found, name, path, line);
  }
  return cell;
}

/// Whether a value is a text, a number or a list of them.
bool has_text(const nlohmann::json& object, const std::string& name) {
  const auto found = object.find(name);
  const auto is_text = [](const nlohmann::json& value) { return value.is_primitive() && !value.is_null(); };
  return found != object.end() && (found->is_array() ? std::ranges::all_of(*found, is_text) : is_text(*found));
}

bool has_odd_quotes(const std::string& text) { return std::ranges::count(text, '"') % 2 != 0; }

}  // namespace

std::string_view name_of(TableFormat format) {
  constexpr std::string_view names[] = {"TSV", "CSV", "JSON lines", "lines of text"};
  return names[static_cast<std::size_t>(format)];
}

std::string usual_column(const std::vector<std::string>& columns, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    for (const std::string& column : columns)
      if (lower_case(column) == name) return column;
  return {};
}

Table::Table(const std::filesystem::path& path, const TableOptions& options) : file_(path), options_(options) {
  is_list_ = options_.format == TableFormat::json_lines && is_json_list(file_);
  if (options_.format == TableFormat::csv) separator_ = find_separator();
  std::string record;
  Place place{};
  std::int64_t line = 0;
  if (!next(record, place, line)) reject("{}: expected rows of text, got an empty file", path.native());
  if (options_.format == TableFormat::json_lines) {
    const nlohmann::json first = parse_object(record, path, line);
    for (const auto& entry : first.items()) columns_.push_back(entry.key());
  } else {
    columns_ = fields(record, line);
    if (!options_.header)
      for (std::size_t i = 0; i < columns_.size(); ++i) columns_[i] = std::to_string(i + 1);
  }
  file_.rewind();
  next_object_ = 0;
}

char Table::find_separator() {
  constexpr std::size_t rows = 20;
  std::vector<std::string> records;
  std::string record;
  Place place{};
  std::int64_t line = 0;
  while (records.size() < rows && next(record, place, line))
    if (!record.empty()) records.push_back(record);
  file_.rewind();
  for (const char separator : {',', ';', '\t', '|'}) {
    std::size_t columns = 0;
    const bool fits = std::ranges::all_of(records, [&](const std::string& one) {
      std::size_t found = 1;
      bool in_quotes = false;
      for (const char c : one) {
        if (c == '"') in_quotes = !in_quotes;
        if (c == separator && !in_quotes) ++found;
      }
      columns = columns == 0 ? found : columns;
      return found == columns && found > 1;
    });
    if (fits) return separator;
  }
  return ',';
}

void Table::select(const std::vector<std::string>& columns) {
  selected_.clear();
  for (const std::string& name : columns) {
    const auto found = std::ranges::find(columns_, name);
    if (found == columns_.end())
      reject("{}: expected a column `{}`, got the columns {}", path().native(), name, fmt::join(columns_, ", "));
    selected_.push_back(static_cast<std::size_t>(found - columns_.begin()));
  }
}

bool Table::next(std::string& record, Place& place, std::int64_t& line) {
  if (is_list_) {
    const std::optional<JsonObject> object = next_in_list(file_, next_object_, list_line_);
    if (!object) return false;
    place = {object->begin, object->bytes};
    line = object->line;
    record = file_.part(place.begin, place.bytes);
    check_text(record, path(), line);
    return true;
  }
  if (!file_.next(record)) return false;
  place = {file_.begin(), file_.end() - file_.begin()};
  line = file_.line();
  if (options_.format == TableFormat::csv)
    for (bool is_open = has_odd_quotes(record); is_open;) {
      constexpr std::size_t longest_record = 16U << 20U;
      std::string more;
      if (!file_.next(more) || record.size() + more.size() > longest_record)
        reject("{}: a quote is opened here and never closed", place_of(path(), line));
      is_open = is_open != has_odd_quotes(more);
      record += '\n';
      record += more;
      place.bytes = file_.end() - place.begin;
    }
  check_text(record, path(), line);
  return true;
}

std::vector<std::string> Table::fields(const std::string& record, std::int64_t line) const {
  if (options_.format == TableFormat::lines) return {record};
  return options_.format == TableFormat::csv ? split_csv(record, separator_, path(), line) : split_tabs(record);
}

TableRow Table::parse(const std::string& record, std::int64_t line) const {
  TableRow row{.line = line, .columns = 0, .cells = {}, .record = record};
  if (options_.format == TableFormat::json_lines) {
    const nlohmann::json object = parse_object(record, path(), line);
    for (const std::size_t column : selected_)
      row.cells.push_back(options_.ragged && !has_text(object, columns_[column])
                              ? Cell()
                              : cell_of(object, columns_[column], path(), line));
    return row;
  }
  std::vector<std::string> all = fields(record, line);
  row.columns = std::ssize(all);
  if (!options_.ragged && all.size() != columns_.size())
    reject("{}: expected {} columns ({}), as the first row has, got {}", place_of(path(), line), columns_.size(),
           fmt::join(columns_, ", "), all.size());
  for (const std::size_t column : selected_) row.cells.push_back({column < all.size() ? all[column] : std::string()});
  return row;
}

void Table::scan(const std::function<bool(const TableRow&)>& keep, const std::function<void(const Error&)>& unread) {
  places_.clear();
  file_.rewind();
  next_object_ = 0;
  std::string record;
  Place place{};
  std::int64_t line = 0, blank = 0;
  const bool has_blanks = options_.format == TableFormat::lines || options_.format == TableFormat::csv || unread;
  for (bool first = options_.header && options_.format != TableFormat::json_lines;;) {
    TableRow row{};
    try {
      if (!next(record, place, line)) break;
      if (std::exchange(first, false)) continue;
      if (record.empty()) {  // other tables may end with them
        if (blank == 0 && !has_blanks) blank = line;
        continue;
      }
      if (blank > 0) reject("{}: expected a row, got an empty line", place_of(path(), blank));
      row = parse(record, line);
    } catch (const Error& error) {
      if (!unread || error.fault() != Fault::input) throw;
      unread(error);
      continue;
    }
    if (keep(row)) places_.push_back(place);
  }
}

std::vector<TableRow> Table::head(std::size_t most) {
  std::vector<TableRow> rows;
  file_.rewind();
  next_object_ = 0;
  std::string record;
  Place place{};
  std::int64_t line = 0;
  bool is_header = options_.header && options_.format != TableFormat::json_lines;
  while (rows.size() < most && next(record, place, line)) {
    if (!is_header && !record.empty()) rows.push_back(parse(record, line));
    is_header = false;
  }
  return rows;
}

std::vector<Cell> Table::row(std::int64_t index) const {
  const Place& place = places_[static_cast<std::size_t>(index)];
  std::string record = file_.part(place.begin, place.bytes);
  while (!record.empty() && (record.back() == '\n' || record.back() == '\r')) record.pop_back();
  if (place.begin == 0 && record.starts_with("\xef\xbb\xbf")) record.erase(0, 3);
  if (options_.format == TableFormat::csv) {  // converts line ends within quotes as the scan does
    for (std::size_t at; (at = record.find("\r\n")) != std::string::npos;) record.erase(at, 1);
  }
  return parse(record, 0).cells;
}

std::string Table::where(std::int64_t index) const {
  return place_of(path(), file_.line_at(places_[static_cast<std::size_t>(index)].begin));
}

std::optional<WordKeys> word_keys(const std::filesystem::path& path) {
  const std::string extension = lower_case(path.extension().string());
  if (extension != ".jsonl" && extension != ".json" && extension != ".ndjson") return {};
  try {
    Table table(path, {.format = TableFormat::json_lines});
    WordKeys keys{usual_column(table.columns(), {"tokens", "words"}),
                  usual_column(table.columns(), {"tags", "ner_tags", "ner", "pos_tags", "pos", "upos", "labels"})};
    if (keys.words.empty() || keys.tags.empty()) return {};
    table.select({keys.words, keys.tags});
    const std::vector<TableRow> first = table.head(1);
    if (!first.empty() && first[0].cells[0].is_list && first[0].cells[1].is_list) return keys;
  } catch (const Error&) {  // reported by the data set, which reads the file again
  }
  return {};
}

std::vector<std::vector<std::string>> first_rows(const std::filesystem::path& path, TableFormat format,
                                                 std::size_t most) {
  Table table(path, {.format = format, .header = false, .ragged = true});
  std::vector<std::vector<std::string>> rows;
  table.select(table.columns());
  for (const TableRow& row : table.head(most)) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (const Cell& cell : row.cells) cells.push_back(cell.text);
  }
  return rows;
}

}  // namespace lacuna
