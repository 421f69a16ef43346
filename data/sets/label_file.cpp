#include "data/sets/label_file.h"

#include "core/error.h"
#include "data/sets/class_index.h"
#include "data/text/utf8.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace lacuna {
namespace {

constexpr std::string_view blanks = " \t\r";

std::string_view trimmed_line(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

std::string_view without_quotes(std::string_view text) {
  text = trimmed_line(text);
  const bool quoted = text.size() > 1 && text.front() == '"' && text.back() == '"';
  return quoted ? text.substr(1, text.size() - 2) : text;
}

/// Cuts a line at `at`, which may be the end.
std::pair<std::string, std::string> cut(std::string_view line, std::size_t at, char separator) {
  at = std::min(at, line.size());
  std::string_view rest = line.substr(std::min(at + 1, line.size()));
  const std::string_view value = trimmed_line(rest);
  if (separator != ' ' && value.starts_with('"'))
    rest = value.substr(0, std::min(value.find('"', 1), value.size() - 1) + 1);
  else if (separator != ' ')
    rest = rest.substr(0, rest.find(separator));  // further columns, as boxes
  return {std::string(without_quotes(line.substr(0, at))), std::string(without_quotes(rest))};
}

std::string_view without_ending(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos || path.find('/', dot) != std::string_view::npos ? path : path.substr(0, dot);
}

/// The files that a path in the list may mean: by the whole path or its last parts, with and without extension.
class ImageNames {
 public:
  ImageNames(const FileTree& tree, const std::vector<std::int32_t>& files) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      std::string_view path = tree.path(files[i]);
      for (bool more = true; more;) {
        note(path, i);
        if (without_ending(path) != path) note(without_ending(path), i);
        const std::size_t slash = path.find('/');
        more = slash != std::string_view::npos;
        path.remove_prefix(more ? slash + 1 : 0);
      }
    }
  }
  struct Found {
    std::size_t file = 0;
    bool several = false;
  };
  std::optional<Found> find(std::string_view written) const {
    for (bool more = true; more;) {
      if (const auto found = files_.find(composed(written)); found != files_.end()) return found->second;
      if (const auto found = files_.find(composed(without_ending(written))); found != files_.end())
        return found->second;
      const std::size_t slash = written.find('/');
      more = slash != std::string_view::npos;
      written.remove_prefix(more ? slash + 1 : 0);
    }
    return std::nullopt;
  }

 private:
  void note(std::string_view path, std::size_t file) {
    const auto [entry, fresh] = files_.try_emplace(composed(path), Found{file});
    if (!fresh && entry->second.file != file) entry->second.several = true;
  }
  std::map<std::string, Found, std::less<>> files_;
};

}  // namespace

LabelFile::LabelFile(std::string name, const std::string& text) : name_(std::move(name)), separator_(' ') {
  std::istringstream lines(text);
  bool tabs = true, commas = true, semicolons = true;
  for (std::string line; std::getline(lines, line);) {
    if (lines_.empty() && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
    if (trimmed_line(line).empty()) continue;
    tabs = tabs && line.find('\t') != std::string::npos;
    commas = commas && line.find(',') != std::string::npos;
    semicolons = semicolons && line.find(';') != std::string::npos;
    lines_.emplace_back(trimmed_line(line));
  }
  if (lines_.empty()) reject("{}: expected a file name and a class on each line, or a class alone", name_);
  separator_ = tabs ? '\t' : commas ? ',' : semicolons ? ';' : ' ';
}

std::vector<std::int32_t> LabelFile::labels(const FileTree& tree, const std::vector<std::int32_t>& files,
                                            const std::vector<std::string>& classes) const {
  const ClassIndex index(classes);
  const auto is_number = [](const std::string& text) {
    return std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  };
  const bool in_order = lines_.size() == files.size() && std::ranges::all_of(lines_, [&](const std::string& line) {
                          return index.find(line) || is_number(line);
                        });
  const ImageNames images(tree, files);
  std::vector<std::string> written(files.size());  // class of each image
  bool names_images = false;
  for (const std::string& line : in_order ? std::vector<std::string>() : lines_) {
    std::optional<ImageNames::Found> found;
    std::string label;
    // Names of files and of classes may have blanks, too.
    for (const std::size_t at : {line.find(separator_), line.rfind(separator_)}) {
      if (found || at == std::string::npos) continue;
      auto [name, rest] = cut(line, at, separator_);
      found = images.find(name);
      label = std::move(rest);
    }
    if (!found) continue;  // a header, or an image of another split
    names_images = true;
    std::string& known = written[found->file];
    if (found->several)
      reject("{}: `{}` may be {} or another image of this name: expected paths with their folders", name_, line,
             tree.origin(files[found->file]));
    if (!known.empty() && known != label)
      reject("{}: {} is listed as `{}` and as `{}`", name_, tree.origin(files[found->file]), known, label);
    known = label;
  }
  if (!names_images) {
    if (lines_.size() != files.size())
      reject("{}: expected a class for each of the {} validation images, got {} lines, of which none names an image",
             name_, files.size(), lines_.size());
    written = lines_;
  }
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (written[i].empty()) reject("{}: expected a class for {}, got none", name_, tree.origin(files[i]));
    const std::string& name = written[i];
    std::optional<std::int32_t> found = index.find(name);
    if (!found) found = index.find(name.substr(0, name.find(' ')));  // boxes follow, in ImageNet's
    std::int32_t number = found.value_or(-1);
    if (!found) {
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
      if (error != std::errc{} || end != name.data() + name.size()) number = -1;
    }
    const auto count = static_cast<std::int32_t>(classes.size());
    if (number < 0 || number >= count)
      reject("{}: expected one of the {} classes of the training images, or a label from 0 to {}, got `{}`{}", name_,
             count, count - 1, written[i],
             number == count ? ": the numbers of ImageNet's development kit are of another order; "
                               "LOC_val_solution.csv or a file of synset names tells the classes"
                             : "");
    labels.push_back(number);
  }
  return labels;
}

}  // namespace lacuna
