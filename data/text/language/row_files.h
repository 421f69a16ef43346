// The rows of files of JSON lines, JSON lists and lines of text.
#pragma once

#include "data/text/text_file.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {

struct DatasetOptions;

/// Rows in the order of the files. Empty lines are left out. Rows lie on disk until they are read.
class RowFiles {
 public:
  explicit RowFiles(const std::vector<std::filesystem::path>& files);

  std::int64_t size() const { return static_cast<std::int64_t>(rows_.size()); }
  /// The JSON object or line of a row. Thread-safe.
  std::string record(std::int64_t row) const;
  /// Whether it is a line of a `.txt` file.
  bool is_line(std::int64_t row) const { return file_of(row).lines; }
  /// `file:line`.
  std::string where(std::int64_t row) const;

 private:
  struct File {
    std::unique_ptr<TextFile> text;
    bool lines;
  };
  struct Row {
    std::int32_t file;
    std::int64_t begin, bytes;
  };
  const Row& row_of(std::int64_t row) const { return rows_[static_cast<std::size_t>(row)]; }
  const File& file_of(std::int64_t row) const { return files_[static_cast<std::size_t>(row_of(row).file)]; }

  std::vector<File> files_;
  std::vector<Row> rows_;
};

/// The files that a split reads, and the one to evaluate on.
struct SplitFiles {
  std::vector<std::filesystem::path> files;
  std::filesystem::path evaluated{};  // empty: there is none, and a part of the files is held out
};
/// data.path is a file, a pattern such as `shards/train-*.jsonl`, or a folder, of which all JSON and `.txt` files count
/// but those with a name for evaluation. `validation` is a setting; empty: the file in that folder.
SplitFiles split_files(const std::string& validation, const DatasetOptions& options);

}  // namespace lacuna
