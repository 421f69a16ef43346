#include "data/sets/label_file.h"

#include "core/error.h"
#include "data/labels.h"
#include "data/text/utf8.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace lacuna {
namespace {

std::string_view without_quotes(std::string_view text) {
  text = without_blanks(text);
  const bool quoted = text.size() > 1 && text.front() == '"' && text.back() == '"';
  return quoted ? text.substr(1, text.size() - 2) : text;
}

/// Cuts a line at `at`, which may be the end.
std::pair<std::string, std::string> cut(std::string_view line, std::size_t at, char separator) {
  at = std::min(at, line.size());
  std::string_view rest = line.substr(std::min(at + 1, line.size()));
  const std::string_view value = without_blanks(rest);
  if (separator != ' ' && value.starts_with('"'))
    rest = value.substr(0, std::min(value.find('"', 1), value.size() - 1) + 1);
  else if (separator != ' ')
    rest = rest.substr(0, rest.find(separator));  // further columns, as boxes
  return {std::string(without_quotes(line.substr(0, at))), std::string(without_quotes(rest))};
}

/// A label without the numbers of boxes behind it, as in ImageNet's lists: `n01 1 2 3 4 n01 5 6 7 8`.
std::string without_boxes(const std::string& text) {
  std::istringstream words(text);
  std::string label, word;
  words >> label;
  while (words >> word)
    if (word != label && word.find_first_not_of("0123456789.-") != std::string::npos) return text;
  return label;
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
    if (without_blanks(line).empty()) continue;
    tabs = tabs && line.find('\t') != std::string::npos;
    commas = commas && line.find(',') != std::string::npos;
    semicolons = semicolons && line.find(';') != std::string::npos;
    lines_.emplace_back(without_blanks(line));
  }
  if (lines_.empty()) reject("{}: expected a file name and a class on each line, or a class alone", name_);
  separator_ = tabs ? '\t' : commas ? ',' : semicolons ? ';' : ' ';
}

std::vector<std::int32_t> LabelFile::labels(const FileTree& tree, const std::vector<std::int32_t>& files,
                                            const std::vector<std::string>& classes) const {
  const ClassIndex index(classes);
  const bool in_order = lines_.size() == files.size() && std::ranges::all_of(lines_, [&](const std::string& line) {
                          return index.find(line) || whole_number(line);
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
  WrittenLabels different;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (written[i].empty()) reject("{}: expected a class for {}, got none", name_, tree.origin(files[i]));
    if (!index.find(written[i])) written[i] = without_boxes(written[i]);
    different.try_emplace(written[i], static_cast<std::int64_t>(i));
  }
  const LabelClasses found({.names = classes, .first = 0}, different,
                           {.file = name_,
                            .where = [&](std::int64_t) { return name_; },
                            .from_one = ": are they from 1? Names tell the classes, as ImageNet's "
                                        "LOC_val_solution.csv has them; its development kit numbers them otherwise"});
  std::vector<std::int32_t> labels;
  for (const std::string& label : written) labels.push_back(found[label]);
  return labels;
}

}  // namespace lacuna
