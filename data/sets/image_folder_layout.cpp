#include "data/sets/image_folder_layout.h"

#include "core/error.h"
#include "core/random.h"
#include "core/text.h"
#include "data/class_names.h"
#include "data/files/input_file.h"
#include "data/permutation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 9> extensions{".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                                     ".pgm", ".tif",  ".tiff", ".webp"};
const std::vector<std::string> train_names{"train", "training"};
const std::vector<std::string> validation_names{"val", "valid", "validation", "eval", "evaluation", "test"};
/// Names of files with the classes of validation images: ImageNet's (Kaggle), Tiny ImageNet's, TensorFlow's, Caffe's.
const std::vector<std::string> label_files{"LOC_val_solution.csv",
                                           "val_annotations.txt",
                                           "imagenet_2012_validation_synset_labels.txt",
                                           "synset_labels.txt",
                                           "val.txt",
                                           "val_labels.txt"};
constexpr std::int64_t longest_label_file = 64 << 20;

bool is_one_of(std::string_view name, const std::vector<std::string>& names) {
  return std::ranges::find(names, lower_case(name)) != names.end();
}

std::string joined(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty()) path += '/';
  return path += name;
}
std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}
std::string_view stem_of(std::string_view name) { return name.substr(0, name.rfind('.')); }

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 8;
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{}, ... ({} in all)", fmt::join(names.begin(), names.begin() + most, ", "), names.size());
}

struct Child {
  std::vector<std::int32_t> files{};  // images in it and below it
  bool has_folders = false;           // whether it has subfolders
};

/// A folder with its images and subfolders.
struct Level {
  std::string folder;
  std::map<std::string, Child> children{};  // subfolders with images
  std::vector<std::int32_t> files{};        // images in the folder itself
};

Level level_of(const FileTree& tree, const std::string& folder) {
  Level level{folder};
  const auto [first, last] = tree.below(folder);
  const std::size_t start = folder.empty() ? 0 : folder.size() + 1;
  for (std::int64_t file = first; file < last; ++file) {
    const std::string_view rest = tree.path(file).substr(start);
    if (!is_image_name(rest)) continue;
    const std::size_t slash = rest.find('/');
    if (slash == std::string_view::npos) {
      level.files.push_back(static_cast<std::int32_t>(file));
      continue;
    }
    Child& child = level.children[std::string(rest.substr(0, slash))];
    child.files.push_back(static_cast<std::int32_t>(file));
    child.has_folders = child.has_folders || rest.find('/', slash + 1) != std::string_view::npos;
  }
  return level;
}

/// The first of `names` that is a child.
const std::pair<const std::string, Child>* find_split(const Level& level, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    for (const auto& child : level.children)
      if (lower_case(child.first) == name) return &child;
  return nullptr;
}

/// Descends through a single top folder, which archives often have.
Level top_of(const FileTree& tree) {
  Level level = level_of(tree, {});
  while (level.files.empty() && level.children.size() == 1) {
    const auto& [name, child] = *level.children.begin();
    if (!child.has_folders || is_one_of(name, train_names) || is_one_of(name, validation_names)) break;
    Level next = level_of(tree, joined(level.folder, name));
    if (!next.files.empty() || (next.children.size() < 2 && next.children.begin()->second.has_folders == false)) break;
    level = std::move(next);
  }
  return level;
}

struct Found {
  Level train, validation;  // validation is empty if there is no validation folder
  bool only_validation = false;
};

Found splits_of(const FileTree& tree) {
  Level top = top_of(tree);
  const auto* const train = find_split(top, train_names);
  const auto* const validation = find_split(top, validation_names);
  const bool has_train = train != nullptr && train->second.has_folders;
  const bool only_splits = std::ranges::all_of(top.children, [](const auto& child) {
    return child.second.has_folders && is_one_of(child.first, validation_names);
  });
  const auto level = [&](const auto* child) { return level_of(tree, joined(top.folder, child->first)); };
  if (has_train) return {level(train), validation == nullptr ? Level{} : level(validation)};
  if (validation != nullptr && only_splits) return {level(validation), level(validation), true};
  return {std::move(top), Level{}};
}

std::string name_of(const Level& level, const fs::path& root) {
  return level.folder.empty() ? root.native() : fmt::format("{}: {}", root.native(), level.folder);
}

std::vector<std::string> names_in(const Level& level) {
  std::vector<std::string> names;
  for (const auto& child : level.children) names.push_back(child.first);
  return names;
}

void refuse_empty_classes(const FileTree& tree, const Level& level, const fs::path& root) {
  for (const std::string& folder : tree.folders()) {
    const std::size_t slash = folder.rfind('/');
    const std::string parent = slash == std::string::npos ? "" : folder.substr(0, slash);
    const std::string name(base_name(folder));
    if (parent == level.folder && !level.children.contains(name))
      reject("{}: the class `{}` has no images ({}): add some, or remove the folder", root.native(), folder,
             fmt::join(extensions, ", "));
  }
}

/// A file that lists validation images with their classes, or only the classes of all images sorted by name.
class LabelFile {
 public:
  LabelFile(std::string name, const std::string& text) : name_(std::move(name)) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::vector<std::string> words(1);
      for (const char c : line) {
        if (c != ',' && c != '\t' && c != ' ' && c != '\r')
          words.back() += c;
        else if (!words.back().empty())
          words.emplace_back();
      }
      if (words.back().empty()) words.pop_back();
      if (words.empty()) continue;
      if (words.size() == 1)
        in_order_.push_back(words[0]);
      else
        by_name_.insert_or_assign(std::string(stem_of(base_name(words[0]))), words[1]);
    }
    if (in_order_.empty() == by_name_.empty())
      reject("{}: expected a file name and a class on each line, or a class alone", name_);
  }

  /// The class of each file, by index; empty for a file that is no image of the split.
  std::vector<std::string> classes(const FileTree& tree, const std::vector<std::int32_t>& files) const {
    if (by_name_.empty()) {
      if (in_order_.size() != files.size())
        reject("{}: expected a class for each of the {} validation images, got {}", name_, files.size(),
               in_order_.size());
      return in_order_;
    }
    std::vector<std::string> classes;
    for (const std::int32_t file : files) {
      const auto found = by_name_.find(stem_of(base_name(tree.path(file))));
      if (found == by_name_.end()) reject("{}: expected a class for {}, got none", name_, tree.origin(file));
      classes.push_back(found->second);
    }
    return classes;
  }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::vector<std::string> in_order_;
  std::map<std::string, std::string, std::less<>> by_name_;
};

/// Searches the images' folder, its parent, and up to three levels above the root, where ImageNet has the file.
std::optional<LabelFile> find_label_file(const FileTree& tree, const Level& level, const fs::path& root,
                                         const fs::path& given) {
  if (!given.empty()) return LabelFile(given.native(), read_text(given, longest_label_file));
  std::string folder = level.folder;
  for (bool more = true; more;) {
    for (const std::string& name : label_files)
      if (const std::int64_t file = tree.find(joined(folder, name)); file >= 0)
        return LabelFile(tree.origin(file), tree.read_text(file, longest_label_file));
    more = !folder.empty();
    const std::size_t slash = folder.rfind('/');
    folder = slash == std::string::npos ? "" : folder.substr(0, slash);
  }
  fs::path above = fs::absolute(root).lexically_normal();
  for (int i = 0; i < 3 && above.has_parent_path() && above != above.parent_path(); ++i) {
    above = above.parent_path();
    std::error_code ignored;
    if (fs::is_regular_file(above / label_files.front(), ignored))
      return LabelFile((above / label_files.front()).native(),
                       read_text(above / label_files.front(), longest_label_file));
  }
  return std::nullopt;
}

using Numbers = std::map<std::string, std::int32_t, std::less<>>;

void add_class(const Child& child, std::int32_t label, ImageSplit& split) {
  split.files.insert(split.files.end(), child.files.begin(), child.files.end());
  split.labels.insert(split.labels.end(), child.files.size(), label);
}

ImageSplit by_folders(std::shared_ptr<const FileTree> tree, const Level& level, const Numbers& numbers) {
  ImageSplit split{std::move(tree), {}, {}};
  for (const auto& [name, child] : level.children) add_class(child, numbers.at(name), split);
  return split;
}

ImageSplit by_label_file(std::shared_ptr<const FileTree> tree, const Level& level, const LabelFile& file,
                         const Numbers& numbers) {
  std::vector<std::int32_t> files = level.files;
  for (const auto& child : level.children)
    files.insert(files.end(), child.second.files.begin(), child.second.files.end());
  ImageSplit split{std::move(tree), std::move(files), {}};
  const auto classes = static_cast<std::int32_t>(numbers.size());
  for (const std::string& name : file.classes(*split.tree, split.files)) {
    const auto found = numbers.find(name);
    std::int32_t number = -1;
    if (found != numbers.end())
      number = found->second;
    else
      std::from_chars(name.data(), name.data() + name.size(), number);
    if (number < 0 || number >= classes)
      reject("{}: expected one of the {} classes of the training images, or a label from 0 to {}, got `{}`{}",
             file.name(), classes, classes - 1, name,
             number == classes ? ": the numbers of ImageNet's development kit are of another order; "
                                 "LOC_val_solution.csv or a file of synset names tells the classes"
                               : "");
    split.labels.push_back(number);
  }
  return split;
}

/// Moves a random share of each class, drawn by the seed, from `train` to `validation`.
void hold_out(double fraction, std::uint64_t seed, ImageSplit& train, ImageSplit& validation) {
  const std::vector<bool> held = held_out(train.labels, fraction, seed);
  ImageSplit kept{train.tree, {}, {}};
  validation.tree = train.tree;
  for (std::size_t i = 0; i < held.size(); ++i) {
    ImageSplit& to = held[i] ? validation : kept;
    to.files.push_back(train.files[i]);
    to.labels.push_back(train.labels[i]);
  }
  train = std::move(kept);
}

std::vector<std::string> missing_from(const std::vector<std::string>& others, const std::vector<std::string>& names) {
  std::vector<std::string> missing;
  for (const std::string& name : names)
    if (std::ranges::find(others, name) == others.end()) missing.push_back(name);
  return missing;
}

}  // namespace

bool is_image_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot != std::string_view::npos &&
         std::ranges::find(extensions, std::string_view(lower_case(name.substr(dot)))) != extensions.end();
}

std::vector<bool> held_out(const std::vector<std::int32_t>& labels, double fraction, std::uint64_t seed) {
  std::map<std::int32_t, std::vector<std::size_t>> of_class;
  for (std::size_t i = 0; i < labels.size(); ++i) of_class[labels[i]].push_back(i);
  std::vector<bool> held(labels.size());
  for (const auto& [label, images] : of_class) {
    const auto count = std::ssize(images);
    if (count < 2) continue;
    const Permutation order(count, {seed, static_cast<std::uint32_t>(label), random_site("data/hold_out")});
    const auto wanted = std::clamp<std::int64_t>(std::llround(fraction * static_cast<double>(count)), 1, count - 1);
    for (std::int64_t i = 0; i < wanted; ++i) held[images[static_cast<std::size_t>(order(i))]] = true;
  }
  return held;
}

std::shared_ptr<const FileTree> tree_at(const fs::path& path, OpenedFiles& files) {
  return files.get<FileTree>(path.native(), [&] { return FileTree::open(path); });
}

ImageFolderLayout find_images(const ImageFolderOptions& options) {
  const std::shared_ptr<const FileTree> tree = tree_at(options.path, *options.files);
  Found found = splits_of(*tree);
  const Level& train = found.train;
  if (train.children.empty())
    reject("{}: expected a folder of images for each class, got {}", options.path.native(),
           train.files.empty() ? fmt::format("no images ({})", fmt::join(extensions, ", "))
                               : fmt::format("{} images in no folders", train.files.size()));
  refuse_empty_classes(*tree, train, options.path);
  const std::vector<std::string> given = class_names(options.labels);
  const std::vector<std::string> names = names_in(train);
  ImageFolderLayout layout;
  layout.classes = given.empty() ? names : given;
  if (!given.empty())
    if (const auto unknown = missing_from(given, names); !unknown.empty())
      reject("{}: expected folders of the classes in data.labels, got {}", options.path.native(), some_of(unknown));
  if (layout.classes.size() < 2)
    reject("{}: expected two classes at least, got one: {}", options.path.native(), some_of(layout.classes));
  Numbers numbers;
  for (std::size_t i = 0; i < layout.classes.size(); ++i)
    numbers.emplace(layout.classes[i], static_cast<std::int32_t>(i));
  layout.train = by_folders(tree, train, numbers);

  std::shared_ptr<const FileTree> validation_tree = tree;
  fs::path validation_root = options.path;
  Level validation = std::move(found.validation);
  if (!options.validation.empty()) {
    validation_tree = tree_at(options.validation, *options.files);
    validation_root = options.validation;
    Level top = top_of(*validation_tree);
    const auto* const split = find_split(top, validation_names);
    validation = split != nullptr ? level_of(*validation_tree, joined(top.folder, split->first)) : std::move(top);
    found.only_validation = false;
    if (validation.children.empty() && validation.files.empty())
      reject("data.validation: {}: expected images, got none", options.validation.native());
  }
  const bool has_validation = !validation.children.empty() || !validation.files.empty();
  const std::vector<std::string> validation_classes = names_in(validation);
  const auto unknown = missing_from(layout.classes, validation_classes);
  const bool fits = unknown.empty() && validation.files.empty();
  std::string evaluated;
  if (has_validation) {
    std::optional<LabelFile> file;
    if (!fits || !options.val_labels.empty())
      file = find_label_file(*validation_tree, validation, validation_root, options.val_labels);
    const std::string where = name_of(validation, validation_root);
    if (file) {
      layout.validation = by_label_file(validation_tree, validation, *file, numbers);
      evaluated = fmt::format("{}, classes from {}", where, file->name());
    } else {
      if (validation.children.empty())
        reject(
            "{}: {} validation images lie in no folders of classes: expected data.val_labels, a file with their "
            "names and classes, as ImageNet's LOC_val_solution.csv",
            where, validation.files.size());
      refuse_empty_classes(*validation_tree, validation, validation_root);
      const auto absent = missing_from(validation_classes, layout.classes);
      if (!unknown.empty() || (!absent.empty() && given.empty()))
        reject(
            "{}: the classes of the validation images differ from those of the training images:{}{}", where,
            unknown.empty() ? "" : fmt::format(" {} only here", some_of(unknown)),
            absent.empty() ? "" : fmt::format(" {} not here; data.labels names the classes of both", some_of(absent)));
      layout.validation = by_folders(validation_tree, validation, numbers);
      evaluated = where;
    }
    if (options.val_fraction != usual_fraction)
      reject("data.val_fraction is {}, but {} has images to evaluate on", options.val_fraction, where);
  } else {
    if (!options.val_labels.empty())
      reject("data.val_labels: expected a folder with validation images besides, got none");
    hold_out(options.val_fraction, options.seed, layout.train, layout.validation);
    if (layout.validation.files.empty())
      reject("{}: no image can be held out for evaluation, since each class has one: data.validation names a folder",
             options.path.native());
    evaluated = fmt::format("held out of each class by data.val_fraction={}", options.val_fraction);
  }
  layout.description = fmt::format(
      "imagefolder {}: {} classes: {}; {} images to train on{}, {} to evaluate on ({}){}{}", options.path.native(),
      layout.classes.size(), some_of(layout.classes), layout.train.files.size(),
      train.folder.empty() ? "" : fmt::format(" ({})", train.folder), layout.validation.files.size(), evaluated,
      found.only_validation ? ": there are no others to train on, so that both are the same" : "",
      train.files.empty() ? "" : fmt::format("; {} images beside the folders are left out", train.files.size()));
  return layout;
}

}  // namespace lacuna
