// Tables of text: TSV, CSV, JSON lines and plain lines, row by row, with named columns.
#pragma once

#include "data/text/text_file.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// TSV has no quoting: a `"` is a character. CSV is RFC 4180's: quotes, doubled quotes, line breaks within quotes.
/// Lines are one column; empty ones are left out.
enum class TableFormat : std::uint8_t { tsv, csv, json_lines, lines };
std::string_view name_of(TableFormat format);

/// A value: a text, or a list of texts. JSON's numbers and flags are texts.
struct Cell {
  std::string text;
  std::vector<std::string> items{};
  bool is_list = false;
};

struct TableOptions {
  TableFormat format = TableFormat::tsv;
  bool header = true;   // of TSV and CSV: whether the first row names the columns; without one, `1` is the first column
  bool ragged = false;  // of TSV and CSV: rows may have more columns than the first one, or fewer
};

/// A row that is being read. `cells` are those of the selected columns.
struct TableRow {
  std::int64_t line;
  std::int64_t columns;  // of TSV and CSV
  std::vector<Cell> cells;
};

class Table {
 public:
  /// Opens a file and reads the names of its columns.
  Table(const std::filesystem::path& path, const TableOptions& options);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::vector<std::string>& columns() const { return columns_; }
  /// The columns that rows are read with; refuses one that the file does not have, and names those it has.
  void select(const std::vector<std::string>& columns);
  /// Reads all rows once and remembers where those are that `keep` answers true for. Refuses rows that are not whole or
  /// not in UTF-8.
  void scan(const std::function<bool(const TableRow&)>& keep);

  std::int64_t size() const { return static_cast<std::int64_t>(places_.size()); }
  /// The selected cells of a row. Any thread may call it.
  std::vector<Cell> row(std::int64_t index) const;
  /// As `file:line`.
  std::string where(std::int64_t index) const;

 private:
  struct Place {
    std::int64_t begin;
    std::int64_t bytes;
  };
  /// The next record, which may have several lines in CSV.
  bool next(std::string& record, Place& place, std::int64_t& line);
  std::vector<std::string> fields(const std::string& record, std::int64_t line) const;
  TableRow parse(const std::string& record, std::int64_t line) const;

  TextFile file_;
  TableOptions options_;
  std::vector<std::string> columns_;
  std::vector<std::size_t> selected_;  // by number
  std::vector<Place> places_;          // [size]
};

/// The first rows as they stand, at most `most`, without a header: to find out what a file is.
std::vector<std::vector<std::string>> first_rows(const std::filesystem::path& path, TableFormat format,
                                                 std::size_t most);

}  // namespace lacuna
