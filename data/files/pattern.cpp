#include "data/files/pattern.h"

#include "core/error.h"
#include "core/glob.h"

#include <algorithm>
#include <cctype>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_paths = 1'000'000;

bool are_digits(std::string_view text) {
  return !text.empty() && text.size() <= 9 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

/// The alternatives of a brace expression, in order.
std::vector<std::string> alternatives(const std::string& inner, const std::string& pattern) {
  std::vector<std::string> all;
  if (const std::size_t dots = inner.find(".."); dots != std::string::npos) {
    const std::string first = inner.substr(0, dots), last = inner.substr(dots + 2);
    if (!are_digits(first) || !are_digits(last) || std::stol(first) > std::stol(last))
      reject("{}: expected {{FIRST..LAST}} with two whole numbers, got {{{}}}", pattern, inner);
    if (static_cast<std::size_t>(std::stol(last) - std::stol(first)) >= most_paths)
      reject("{}: {{{}}} stands for more than {} files", pattern, inner, most_paths);
    for (long number = std::stol(first); number <= std::stol(last); ++number)
      all.push_back(fmt::format("{:0{}}", number, first.size()));
    return all;
  }
  for (std::size_t begin = 0; begin <= inner.size();) {
    const std::size_t end = std::min(inner.find(',', begin), inner.size());
    all.push_back(inner.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

std::vector<std::string> expand_braces(const std::string& pattern) {
  std::vector<std::string> all{""};
  for (std::size_t begin = 0; begin < pattern.size();) {
    const std::size_t open = std::min(pattern.find('{', begin), pattern.size());
    for (std::string& one : all) one += pattern.substr(begin, open - begin);
    if (open == pattern.size()) break;
    const std::size_t close = pattern.find('}', open);
    if (close == std::string::npos) reject("{}: expected a brace that closes the one at {}", pattern, open + 1);
    const std::vector<std::string> parts = alternatives(pattern.substr(open + 1, close - open - 1), pattern);
    if (all.size() * parts.size() > most_paths) reject("{}: stands for more than {} files", pattern, most_paths);
    std::vector<std::string> longer;
    for (const std::string& one : all)
      for (const std::string& part : parts) longer.push_back(one + part);
    all = std::move(longer);
    begin = close + 1;
  }
  return all;
}

}  // namespace

bool is_pattern(std::string_view path) { return path.find_first_of("{*?[") != std::string_view::npos; }

std::vector<fs::path> expand_pattern(const std::string& pattern) {
  std::vector<fs::path> paths;
  for (const std::string& text : expand_braces(pattern)) {
    const fs::path path = text;
    if (path.filename().native().find_first_of("*?[") == std::string::npos) {
      paths.push_back(path);
      continue;
    }
    std::error_code failed;
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    std::vector<fs::path> found;
    fs::directory_iterator entry(folder, failed);
    for (; !failed && entry != fs::directory_iterator(); entry.increment(failed))
      if (matches_glob(path.filename().native(), entry->path().filename().native())) found.push_back(entry->path());
    if (failed) reject("{}: {} cannot be read: {}", pattern, folder.native(), failed.message());
    if (found.empty()) reject("{}: matches no file", pattern);
    std::ranges::sort(found);
    paths.insert(paths.end(), found.begin(), found.end());
  }
  return paths;
}

}  // namespace lacuna
