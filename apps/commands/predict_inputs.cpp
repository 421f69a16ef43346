#include "apps/commands/predict_inputs.h"

#include "apps/config/yaml.h"
#include "apps/output/output.h"
#include "core/error.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/files/input_file.h"
#include "data/files/picture_names.h"
#include "data/images/image_reader.h"
#include "data/sets/image_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

namespace lacuna::apps {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

/// A file, a pipe or a device, as `<(command)`; `-`: standard input.
std::string read_whole(const std::string& name) {
  const std::string path = name == "-" ? "/dev/stdin" : name;
  std::error_code ignored;
  if (!fs::is_fifo(path, ignored) && !fs::is_character_file(path, ignored)) {
    const InputFile file(path);
    std::string bytes(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
    return bytes;
  }
  std::ifstream stream(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(stream), {});
  if (!stream && !stream.eof()) reject("{}: cannot be read", path);
  return bytes;
}

bool is_picture(const FileTree& tree, std::int64_t file) {
  if (!has_no_kind(tree.path(file))) return is_image_name(tree.path(file));
  std::array<std::uint8_t, 32> bytes{};
  return image_format(tree.read_begin(file, bytes)).is_read;
}

bool is_tar_name(const std::string& path) {
  const std::string name = lower_case(path);
  return std::ranges::any_of(std::initializer_list<std::string_view>{".tar", ".tgz", ".tar.gz", ".tar.xz", ".tar.zst"},
                             [&](std::string_view end) { return name.ends_with(end); });
}

/// A row by column, its values as they stand in the file.
std::string row_of(const TableRow& row, const lacuna::Table& table, TableFormat format) {
  if (format == TableFormat::json_lines) {
    std::string object(row.record);
    std::ranges::replace_if(
        object, [](char c) { return c == '\n' || c == '\r'; }, ' ');  // never within a text
    return object;
  }
  ordered_json values;
  for (std::size_t i = 0; i < row.cells.size(); ++i) values[table.columns()[i]] = row.cells[i].text;
  return to_line(values);
}

/// Hands on each row of a table: its texts in the columns `names`, its place, and itself. A row that cannot be read, or
/// has no such text, goes to `unread`.
template <class Take>
void each_row(const std::string& file, const TableOptions& options, const std::vector<std::string>& names,
              const TakeUnread& unread, const Take& take) {
  lacuna::Table table(file, options);
  const bool is_json = options.format == TableFormat::json_lines;
  table.select(is_json ? names : table.columns());  // no other values of an object are judged
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < names.size(); ++i)
    places.push_back(
        is_json ? i : static_cast<std::size_t>(std::ranges::find(table.columns(), names[i]) - table.columns().begin()));
  table.scan(
      [&](const TableRow& row) {
        const std::string place = fmt::format("{}:{}", file, row.line);
        std::vector<std::string> texts;
        for (std::size_t i = 0; i < names.size(); ++i) {
          const Cell& cell = row.cells[places[i]];
          if (cell.is_list || cell.text.empty()) {
            unread(Error(Fault::input, fmt::format("{}: expected a text in `{}`, got {}", place, names[i],
                                                   cell.is_list ? "a list" : "none")));
            return false;
          }
          texts.push_back(cell.text);
        }
        take(std::move(texts), place, row_of(row, table, options.format));
        return false;
      },
      unread);
}

}  // namespace

std::string to_line(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void each_image(const std::vector<std::string>& paths, const TakeInput& take) {
  if (paths.empty()) reject("expected images: files, folders or tar archives");
  for (const std::string& path : paths) {
    std::error_code ignored;
    const bool is_folder = fs::is_directory(path, ignored);
    if (!is_folder && !is_tar_name(path)) {
      take({path, path, [&] { return read_whole(path); }});
      continue;
    }
    const auto tree = FileTree::open(path);
    std::int64_t images = 0;
    for (std::int64_t file = 0; file < tree->size(); ++file) {
      if (!is_picture(*tree, file)) continue;
      ++images;
      const std::string name =
          is_folder ? (fs::path(path) / tree->path(file)).native() : fmt::format("{}: {}", path, tree->path(file));
      take({name, name, [&] { return tree->read_text(file, std::numeric_limits<std::int64_t>::max()); }});
    }
    if (images == 0) reject("{}: expected images, got none", path);
    if (const std::int64_t others = tree->size() - images; others > 0)
      print_error(fmt::format("lacuna: note: {}: {} file{} no picture{}\n", path, others, others == 1 ? " is" : "s are",
                              others == 1 ? "" : "s"));
  }
}

void each_picture_row(const std::string& file, std::string given, const Tree& run, const TakeInput& take,
                      const TakeUnread& unread) {
  const auto of_run = [&](std::string_view key) {
    const Tree* const value = value_of(run, "data", key);
    return value == nullptr ? std::string() : value->text;
  };
  const TableFormat format = format_of_table(file);
  const auto rows = first_rows(file, format, 2);
  const auto names_picture = [](const std::string& cell) { return is_image_name(cell); };
  const bool header = format == TableFormat::json_lines || std::ranges::none_of(rows.front(), names_picture);
  const std::vector<std::string> columns = lacuna::Table(file, {.format = format, .header = header}).columns();
  const auto has = [&](const std::string& column) { return std::ranges::find(columns, column) != columns.end(); };
  if (given.empty() && has(of_run(picture_table::column))) given = of_run(picture_table::column);
  if (given.empty())
    if (const auto found = std::ranges::find_if(rows.back(), names_picture); found != rows.back().end())
      given = columns[static_cast<std::size_t>(found - rows.back().begin())];
  if (!has(given))
    reject("{}: expected --column with the name of the column of pictures: there are {}", file,
           fmt::join(columns, ", "));
  const fs::path beside = fs::path(file).parent_path(), folder = of_run(picture_table::folder);
  each_row(file, {.format = format, .header = header}, {given}, unread,
           [&](const std::vector<std::string>& texts, const std::string& place, std::string row) {
             std::error_code ignored;
             const std::string name = texts[0] + of_run(picture_table::extension);
             const fs::path path = folder.empty() || fs::exists(beside / name, ignored) ? beside / name : folder / name;
             take({.name = path.native(),
                   .place = place,
                   .read = [path] { return read_whole(path.native()); },
                   .row = std::move(row)});
           });
}

void each_text(const std::vector<std::string>& texts, const std::string& input, const TakeInput& take) {
  const auto take_text = [&](const std::string& text, std::string place) {
    take({text, std::move(place), [&] { return text; }});
  };
  for (const std::string& text : texts)
    if (std::error_code ignored; fs::is_regular_file(text, ignored))
      reject("{0}: is a file, not a text: `--input {0}` takes its lines, or the rows of a table", text);
  for (const std::string& text : texts) take_text(text, fmt::format("`{}`", text));
  if (!texts.empty()) return;
  const bool standard = input.empty() || input == "-";
  const std::string name = standard ? "standard input" : input;
  std::ifstream file;
  if (!standard) {
    file.open(input);
    if (!file) reject("{}: cannot be read", input);
  }
  std::istream& stream = standard ? std::cin : file;
  std::int64_t line = 0;
  for (std::string text; std::getline(stream, text);) {
    if (!text.empty() && text.back() == '\r') text.pop_back();
    take_text(text, fmt::format("{}:{}", name, ++line));
  }
  if (stream.bad()) reject("{}: cannot be read beyond line {}", name, line);
}

TextColumns columns_to_read(const std::string& file, const std::vector<std::string>& given,
                            const std::vector<std::string>& learned) {
  const std::vector<std::string> there = lacuna::Table(file, {.format = format_of_table(file)}).columns();
  const bool are_there = std::ranges::all_of(learned, [&](const std::string& column) {
    const bool is_number = column.find_first_not_of("0123456789") == std::string::npos;
    return is_number || std::ranges::find(there, column) != there.end();
  });
  const std::vector<std::string>& named = given.empty() && are_there ? learned : given;
  TextColumns columns;
  if (!named.empty()) columns.text = named.front();
  if (named.size() == 2) columns.pair = named.back();
  columns =
      text_columns(file, std::move(columns), given.empty() && learned.size() == 2 ? RowsOf::pairs : RowsOf::texts);
  for (const std::string& column : {columns.text, columns.pair})
    if (columns.table.header && !column.empty() && std::ranges::find(there, column) == there.end())
      reject("{}: expected --column with the name of a column of texts: there are {}", file, fmt::join(there, ", "));
  return columns;
}

void each_text_row(const std::string& file, const TextColumns& columns, const TakeInput& take,
                   const TakeUnread& unread) {
  std::vector<std::string> names{columns.text};
  if (!columns.pair.empty()) names.push_back(columns.pair);
  each_row(file, columns.table, names, unread,
           [&](std::vector<std::string> texts, const std::string& place, std::string row) {
             take({.name = texts[0],
                   .place = place,
                   .read = [text = texts[0]] { return text; },
                   .pair = texts.size() == 2 ? std::optional(texts[1]) : std::nullopt,
                   .row = std::move(row)});
           });
}

}  // namespace lacuna::apps
