#include "data/text/word_columns.h"

#include "core/error.h"
#include "data/text/utf8.h"

#include <algorithm>
#include <optional>

namespace lacuna {

WordColumns::WordColumns(const std::filesystem::path& path, std::int64_t words, std::int64_t tags)
    : file_(path), words_(words), tags_(tags) {}

std::vector<std::string_view> WordColumns::split(std::string_view line) const {
  std::vector<std::string_view> columns;
  line = line.substr(0, line.find_last_not_of(" \t") + 1);
  const std::string_view between = line.find('\t') != std::string_view::npos ? "\t" : " ";
  if (line.starts_with("-DOCSTART-")) return columns;
  for (std::size_t begin = line.find_first_not_of(" \t"); begin < line.size();) {
    const std::size_t end = std::min(line.find_first_of(between, begin), line.size());
    columns.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(between, end);
  }
  // A comment, and no word that begins with the same sign.
  if (!columns.empty() && columns.front().starts_with('#') &&
      (columns.size() != (columns_ > 0 ? columns_ : 2) ||
       std::any_of(columns.begin() + 1, columns.end(),
                   [](std::string_view column) { return column.find('=') != std::string_view::npos; })))
    columns.clear();
  return columns;
}

std::string_view WordColumns::word(const std::vector<std::string_view>& columns) const {
  return columns[static_cast<std::size_t>(words_ > 0 ? words_ - 1 : 0)];
}

void WordColumns::scan(const std::function<void(std::int64_t line, std::string tag, bool is_last)>& take) {
  struct Word {
    std::int64_t line;
    std::string tag;
  };
  std::optional<Word> before;
  const auto hand_on = [&](bool is_last) {
    if (before) take(before->line, std::move(before->tag), is_last);
    before.reset();
  };
  bool within = false;  // a sentence
  for (std::string line; file_.next(line);) {
    const std::vector<std::string_view> columns = split(line);
    const bool is_blank = line.find_first_not_of(" \t") == std::string::npos;
    if (columns.empty()) {
      if (!is_blank && within && line.front() == '#') continue;
      hand_on(true);
      within = false;
      continue;
    }
    if (find_broken_utf8(line) != std::string::npos)
      reject("{}:{}: expected UTF-8", file_.path().native(), file_.line());
    if (columns_ == 0) columns_ = columns.size();
    const auto least = static_cast<std::size_t>(std::max<std::int64_t>({2, words_, tags_}));
    if (columns.size() != columns_ || columns_ < least)
      reject("{}:{}: expected a word and its labels in {} columns, or an empty line between sentences, got {} column{}",
             file_.path().native(), file_.line(), std::max(columns_, least), columns.size(),
             columns.size() == 1 ? "" : "s");
    hand_on(false);
    if (!within) sentences_.push_back({file_.begin(), 0});
    within = true;
    sentences_.back().end = file_.end();
    before = {file_.line(), std::string(tags_ > 0 ? columns[static_cast<std::size_t>(tags_ - 1)] : columns.back())};
  }
  hand_on(true);
}

std::vector<std::string> WordColumns::words(std::int64_t sentence) const {
  const Place place = sentences_[static_cast<std::size_t>(sentence)];
  const std::string text = file_.part(place.begin, place.end - place.begin);
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  std::vector<std::string> words;
  for (std::size_t begin = place.begin == 0 && text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
       begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (const std::vector<std::string_view> columns = split(line); !columns.empty()) words.emplace_back(word(columns));
    begin = end + 1;
  }
  return words;
}

bool has_entity_columns(const std::filesystem::path& path) {
  constexpr int looked_at = 200;
  TextFile file(path);
  std::size_t columns = 0;
  std::string line;
  for (int i = 0; i < looked_at && file.next(line); ++i) {
    std::string_view text = std::string_view(line).substr(0, line.find_last_not_of(" \t") + 1);
    if (text.empty() || text.starts_with("-DOCSTART-")) continue;
    std::size_t count = 0;
    std::string_view last;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
      last = text.substr(0, end);
      ++count;
      text.remove_prefix(std::min(text.find_first_not_of(" \t", end), text.size()));
    }
    if (columns == 0) columns = count;
    const bool is_tag = last == "O" || (last.size() > 2 && last[1] == '-' &&
                                        std::string_view("BIESLU").find(last[0]) != std::string_view::npos);
    if (count < 2 || count != columns || !is_tag) return false;
  }
  return columns > 0;
}

}  // namespace lacuna
