// Tables of text: TSV, CSV, JSON lines and plain lines, row by row, with named columns.
#pragma once

#include "core/error.h"
#include "data/text/text_file.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// TSV has no quoting: `"` is an ordinary character. CSV follows RFC 4180: quotes, doubled quotes, line breaks within
/// quotes; where no comma separates its columns, a semicolon, tab or `|` may. `json_lines` may be one list of objects.
/// `lines` has a single column and skips empty lines.
enum class TableFormat : std::uint8_t { tsv, csv, json_lines, lines };
std::string_view name_of(TableFormat format);

/// The first of `columns` with one of the usual names, case aside; empty if there is none.
std::string usual_column(const std::vector<std::string>& columns, const std::vector<std::string>& names);

/// A value: a text, or a list of texts. JSON numbers and booleans are texts.
struct Cell {
  std::string text;
  std::vector<std::string> items{};
  bool is_list = false;
};

struct TableOptions {
  TableFormat format = TableFormat::tsv;
  bool header = true;   // TSV, CSV: the first row names the columns; without a header they are `1`, `2` …
  bool ragged = false;  // rows may have more or fewer columns than the first; JSON: other values are empty cells
};

/// A row during a scan. `cells` are those of the selected columns.
struct TableRow {
  std::int64_t line;
  std::int64_t columns;  // TSV and CSV only
  std::vector<Cell> cells;
  std::string_view record{};  // as it stands in the file
};

class Table {
 public:
  /// Opens a file and reads the names of its columns.
  Table(const std::filesystem::path& path, const TableOptions& options);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<std::string>& columns() const { return columns_; }
  /// Selects the columns to read. Rejects a missing one; the message lists the existing columns.
  void select(const std::vector<std::string>& columns);
  /// Reads all rows once and remembers the position of each row for which `keep` returns true. CSV may have empty
  /// lines. Rejects malformed rows and rows that are not UTF-8, or hands each error to `unread` and goes on.
  void scan(const std::function<bool(const TableRow&)>& keep, const std::function<void(const Error&)>& unread = {});

  /// Up to `most` rows from the first on.
  std::vector<TableRow> head(std::size_t most);

  std::int64_t size() const { return static_cast<std::int64_t>(places_.size()); }
  /// The selected cells of a row. Thread-safe.
  std::vector<Cell> row(std::int64_t index) const;
  /// The location of a row, `file:line`.
  std::string where(std::int64_t index) const;

 private:
  struct Place {
    std::int64_t begin;
    std::int64_t bytes;
  };
  /// Reads the next record, which may span several lines in CSV.
  bool next(std::string& record, Place& place, std::int64_t& line);
  std::vector<std::string> fields(const std::string& record, std::int64_t line) const;
  TableRow parse(const std::string& record, std::int64_t line) const;

  char find_separator();

  TextFile file_;
  TableOptions options_;
  char separator_ = ',';                          // CSV only
  bool is_list_ = false;                          // JSON: one list of objects
  std::int64_t next_object_ = 0, list_line_ = 1;  // where the list goes on
  std::vector<std::string> columns_;
  std::vector<std::size_t> selected_;  // column indices
  std::vector<Place> places_;          // [size]
};

/// Up to `most` first rows as cells, including a header row, for detecting the layout of a file.
std::vector<std::vector<std::string>> first_rows(const std::filesystem::path& path, TableFormat format,
                                                 std::size_t most);

/// The keys of JSON lines whose first row has a list of words and a list of as many tags; nothing for other files.
struct WordKeys {
  std::string words, tags;
};
std::optional<WordKeys> word_keys(const std::filesystem::path& path);

}  // namespace lacuna
