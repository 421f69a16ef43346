// CoNLL's files: a word on each line with its labels in columns, and an empty line between sentences.
#pragma once

#include "data/text/text_file.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Columns lie between tabs if a line has any, otherwise between spaces. `-DOCSTART-` lines and comments of sentences
/// (`# id = 7`) are no words.
class WordColumns {
 public:
  /// `words`, `tags`: numbers of columns, from 1; 0: the first, and the last.
  WordColumns(const std::filesystem::path& path, std::int64_t words, std::int64_t tags);

  /// Calls `take` with the line, the tag of each word, and whether the word ends its sentence. A line with other
  /// columns than the first one is the input's fault. Sentences have numbers afterwards.
  void scan(const std::function<void(std::int64_t line, std::string tag, bool is_last)>& take);
  /// The words of a sentence. Thread-safe.
  std::vector<std::string> words(std::int64_t sentence) const;

 private:
  /// The columns of a line with a word; empty for other lines.
  std::vector<std::string_view> split(std::string_view line) const;
  std::string_view word(const std::vector<std::string_view>& columns) const;

  TextFile file_;
  std::int64_t words_, tags_;
  std::size_t columns_ = 0;  // of every line
  struct Place {
    std::int64_t begin, end;
  };
  std::vector<Place> sentences_;
};

/// Whether the first lines of a file are words with tags of entities (`O`, `B-PER`) in the last column.
bool has_entity_columns(const std::filesystem::path& path);

}  // namespace lacuna
