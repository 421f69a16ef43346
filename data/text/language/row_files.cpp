#include "data/text/language/row_files.h"

#include "core/error.h"
#include "core/glob.h"
#include "core/text.h"
#include "data/text/json_list.h"
#include "data/text/text_dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace lacuna {
namespace {

const std::vector<std::string> row_extensions{"jsonl", "json", "ndjson", "txt"};

bool has_rows(const std::filesystem::path& file) {
  const std::string extension = lower_case(file.extension().string());
  std::error_code ignored;
  return !extension.empty() && std::ranges::find(row_extensions, extension.substr(1)) != row_extensions.end() &&
         !file.filename().string().starts_with('.') && std::filesystem::is_regular_file(file, ignored);
}

template <class Wanted>
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder, const Wanted& wanted) {
  std::vector<std::filesystem::path> files;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    if (has_rows(entry->path()) && wanted(entry->path())) files.push_back(entry->path());
  if (failed) reject("data.path: {} cannot be read: {}", folder.native(), failed.message());
  std::ranges::sort(files);
  return files;
}

std::vector<std::filesystem::path> training_files(const std::filesystem::path& path) {
  if (path.empty()) reject("data.path: expected a file of JSON lines or of text, a folder of them, or a pattern");
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_directory(path, ignored)) return {path};
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const std::string pattern = path.filename().string();
  if (!is_folder && pattern.find_first_of("*?[") == std::string::npos)
    reject("data.path: {} does not exist", path.native());
  const std::vector<std::filesystem::path> files =
      is_folder ? files_in(path, [](const auto& file) { return !is_validation_name(file.stem().string()); })
                : files_in(path.has_parent_path() ? path.parent_path() : ".",
                           [&](const auto& file) { return matches_glob(pattern, file.filename().string()); });
  if (files.empty())
    reject("data.path: {}: expected files to train on, with one of the extensions {}", path.native(),
           fmt::join(row_extensions, ", "));
  return files;
}

}  // namespace

RowFiles::RowFiles(const std::vector<std::filesystem::path>& files) {
  for (const std::filesystem::path& path : files) {
    const auto number = static_cast<std::int32_t>(files_.size());
    files_.push_back({std::make_unique<TextFile>(path), lower_case(path.extension().string()) == ".txt"});
    TextFile& text = *files_.back().text;
    if (!files_.back().lines && is_json_list(text)) {
      std::int64_t at = 0, line = 1;
      while (const std::optional<JsonObject> object = next_in_list(text, at, line))
        rows_.push_back({number, object->begin, object->bytes});
      continue;
    }
    for (std::string line; text.next(line);)
      if (line.find_first_not_of(" \t") != std::string::npos)
        rows_.push_back({number, text.begin(), text.end() - text.begin()});
  }
  if (rows_.empty()) reject("{}: expected rows, got none", files.front().native());
}

std::string RowFiles::record(std::int64_t row) const {
  const Row& place = row_of(row);
  std::string record = file_of(row).text->part(place.begin, place.bytes);
  while (record.ends_with('\n') || record.ends_with('\r')) record.pop_back();
  constexpr std::string_view mark = "\xef\xbb\xbf";
  if (place.begin == 0 && record.starts_with(mark)) record.erase(0, mark.size());
  return record;
}

std::string RowFiles::where(std::int64_t row) const {
  const TextFile& file = *file_of(row).text;
  return fmt::format("{}:{}", file.path().native(), file.line_at(row_of(row).begin));
}

SplitFiles split_files(const std::string& validation, const DatasetOptions& options) {
  SplitFiles out{.files = {}, .evaluated = validation_file(validation, options, row_extensions).value_or("")};
  if (options.split == Split::validation && !out.evaluated.empty())
    out.files = {out.evaluated};
  else
    out.files = training_files(options.path);
  return out;
}

}  // namespace lacuna
