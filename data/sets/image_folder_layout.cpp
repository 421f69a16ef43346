#include "data/sets/image_folder_layout.h"

#include "core/error.h"
#include "core/random.h"
#include "core/text.h"
#include "data/class_names.h"
#include "data/files/input_file.h"
#include "data/files/picture_names.h"
#include "data/files/split_names.h"
#include "data/labels.h"
#include "data/sets/label_file.h"
#include "data/text/utf8.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

/// Names of files with the classes of validation images: ImageNet's (Kaggle), Tiny ImageNet's, TensorFlow's, Caffe's.
const std::vector<std::string> label_files{"LOC_val_solution.csv",
                                           "val_annotations.txt",
                                           "imagenet_2012_validation_synset_labels.txt",
                                           "synset_labels.txt",
                                           "val.txt",
                                           "val_labels.txt"};
constexpr std::int64_t longest_label_file = 64 << 20;

bool is_evaluated(std::string_view name) {
  const SplitName split = split_named(name);
  return split == SplitName::validation || split == SplitName::test;
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

/// A tree and which of its files are pictures.
struct Pictures {
  std::shared_ptr<const FileTree> tree;
  std::shared_ptr<const PictureFiles> files;
};

Pictures pictures_at(const fs::path& path, OpenedFiles& files) {
  const auto tree = tree_at(path, files);
  return {tree, files.get<PictureFiles>(path.native(),
                                        [&] { return std::make_shared<const PictureFiles>(PictureFiles::of(*tree)); })};
}

Level level_of(const Pictures& pictures, const std::string& folder) {
  Level level{folder};
  const FileTree& tree = *pictures.tree;
  const auto [first, last] = tree.below(folder);
  const std::size_t start = folder.empty() ? 0 : folder.size() + 1;
  for (std::int64_t file = first; file < last; ++file) {
    const std::string_view rest = tree.path(file).substr(start);
    if (!pictures.files->is_picture[static_cast<std::size_t>(file)]) continue;
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

/// The child that is the first of some splits.
const std::pair<const std::string, Child>* find_split(const Level& level, std::initializer_list<SplitName> splits) {
  for (const SplitName split : splits)
    for (const auto& child : level.children)
      if (split_named(child.first) == split) return &child;
  return nullptr;
}
constexpr auto training = {SplitName::train}, evaluation = {SplitName::validation, SplitName::test};

/// Descends through a single top folder, which archives often have.
Level top_of(const Pictures& pictures) {
  Level level = level_of(pictures, {});
  while (level.files.empty() && level.children.size() == 1) {
    const auto& [name, child] = *level.children.begin();
    if (!child.has_folders || split_named(name) != SplitName::none) break;
    Level next = level_of(pictures, joined(level.folder, name));
    if (!next.files.empty() || (next.children.size() < 2 && next.children.begin()->second.has_folders == false)) break;
    level = std::move(next);
  }
  return level;
}

struct Found {
  Level train, validation;  // validation is empty if there is no validation folder
  bool only_validation = false;
  std::vector<std::string> beside{};  // folders with images beside the splits
};

/// Refuses `train` if it may be a class like those beside it.
void refuse_classes_beside(const Level& top, const std::string& train, bool has_validation,
                           const std::vector<std::string>& beside, const fs::path& root) {
  if (has_validation || beside.empty()) return;
  reject(
      "{}: `{}` holds folders, as images to train on do, and {} with images lie{} beside it: data.path={} reads `{}` "
      "alone; a class of this name needs another one, as `{}_`",
      root.native(), train, some_of(beside), beside.size() == 1 ? "s" : "", (root / joined(top.folder, train)).native(),
      train, train);
}

Found splits_of(const Pictures& pictures, const fs::path& root) {
  Level top = top_of(pictures);
  const auto* const train = find_split(top, training);
  const auto* const validation = find_split(top, evaluation);
  const bool has_train = train != nullptr && train->second.has_folders;
  const bool only_splits = std::ranges::all_of(
      top.children, [](const auto& child) { return child.second.has_folders && is_evaluated(child.first); });
  const auto level = [&](const auto* child) { return level_of(pictures, joined(top.folder, child->first)); };
  std::vector<std::string> beside, classes_beside;
  for (const auto& child : top.children) {
    if (&child == train || &child == validation) continue;
    beside.push_back(child.first);
    if (!is_evaluated(child.first)) classes_beside.push_back(child.first);
  }
  if (has_train) {
    refuse_classes_beside(top, train->first, validation != nullptr, classes_beside, root);
    return {level(train), validation == nullptr ? Level{} : level(validation), false, beside};
  }
  if (validation != nullptr && only_splits) return {level(validation), level(validation), true, beside};
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

/// Whether a folder is that of a run, or holds some.
bool holds_runs(const FileTree& tree, const std::string& folder) {
  const auto [first, last] = tree.below(folder);
  for (std::int64_t file = first; file < last; ++file)
    if (base_name(tree.path(file)) == "config.yaml") return true;
  return false;
}

void refuse_empty_classes(const FileTree& tree, const Level& level, const fs::path& root) {
  for (const std::string& folder : tree.folders()) {
    const std::size_t slash = folder.rfind('/');
    const std::string parent = slash == std::string::npos ? "" : folder.substr(0, slash);
    const std::string name(base_name(folder));
    if (parent == level.folder && !level.children.contains(name) && !holds_runs(tree, folder))
      reject("{}: the class `{}` has no images ({}): add some, or remove the folder", root.native(), folder,
             picture_extensions());
  }
}

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

void add_class(const Child& child, std::int32_t label, ImageSplit& split) {
  split.files.insert(split.files.end(), child.files.begin(), child.files.end());
  split.labels.insert(split.labels.end(), child.files.size(), label);
}

ImageSplit by_folders(std::shared_ptr<const FileTree> tree, const Level& level, const ClassIndex& index) {
  ImageSplit split{std::move(tree), {}, {}};
  for (const auto& [name, child] : level.children) add_class(child, index.find(name).value(), split);
  return split;
}

ImageSplit by_label_file(std::shared_ptr<const FileTree> tree, const Level& level, const LabelFile& file,
                         const std::vector<std::string>& classes) {
  std::vector<std::int32_t> files = level.files;
  for (const auto& child : level.children)
    files.insert(files.end(), child.second.files.begin(), child.second.files.end());
  ImageSplit split{std::move(tree), std::move(files), {}};
  split.labels = file.labels(*split.tree, split.files, classes);
  return split;
}

/// Moves a share of each class from `train` to `validation`.
std::shared_ptr<const HeldOut> hold_out(const HoldOutOptions& options, const std::string& folder, ImageSplit& train,
                                        ImageSplit& validation) {
  const std::size_t start = folder.empty() ? 0 : folder.size() + 1;
  std::vector<std::string> names, paths;
  for (const std::int32_t file : train.files) {
    const std::string& path = paths.emplace_back(train.tree->path(file).substr(start));
    names.push_back(path.substr(path.find('/') + 1));  // within the class
  }
  const std::vector<bool> held = held_out(names, paths, train.labels, options);
  ImageSplit kept{train.tree, {}, {}};
  validation.tree = train.tree;
  auto sides = std::make_shared<HeldOut>();
  for (std::size_t i = 0; i < held.size(); ++i) {
    ImageSplit& to = held[i] ? validation : kept;
    to.files.push_back(train.files[i]);
    to.labels.push_back(train.labels[i]);
    if (held[i]) sides->names.push_back(paths[i]);
  }
  train = std::move(kept);
  sides->trained_on = std::ssize(train.files);
  return sides;
}

/// Names that are none of `others`.
std::vector<std::string> missing_from(const std::vector<std::string>& others, const std::vector<std::string>& names) {
  const ClassIndex index(others);
  std::vector<std::string> missing;
  for (const std::string& name : names)
    if (!index.find(name)) missing.push_back(name);
  return missing;
}

}  // namespace

std::shared_ptr<const FileTree> tree_at(const fs::path& path, OpenedFiles& files) {
  return files.get<FileTree>(path.native(), [&] { return FileTree::open(path); });
}

bool has_class_folders(const fs::path& path, OpenedFiles& files) {
  const auto tree = tree_at(path, files);
  PictureFiles by_name;
  for (std::int64_t file = 0; file < tree->size(); ++file)
    by_name.is_picture.push_back(is_image_name(tree->path(file)));
  const Pictures pictures{tree, std::make_shared<const PictureFiles>(std::move(by_name))};
  Level level = top_of(pictures);
  const auto* const train = find_split(level, training);
  if (train == nullptr || !train->second.has_folders) return false;
  level = level_of(pictures, joined(level.folder, train->first));
  std::error_code ignored;
  return std::ranges::count_if(level.children, [&](const auto& child) {
           return fs::is_directory(path / joined(level.folder, child.first), ignored);
         }) > 1;
}

ImageFolderLayout find_images(const ImageFolderOptions& options) {
  const Pictures pictures = pictures_at(options.path, *options.files);
  Found found = splits_of(pictures, options.path);
  const Level& train = found.train;
  if (train.children.empty())
    reject("{}: expected a folder of images for each class, got {}", options.path.native(),
           train.files.empty() ? fmt::format("no images ({})", picture_extensions())
                               : fmt::format("{} images in no folders", train.files.size()));
  refuse_empty_classes(*pictures.tree, train, options.path);
  const std::vector<std::string> given = class_names(options.labels);
  const std::vector<std::string> names = names_in(train);
  if (given.empty()) refuse_lookalikes(names, options.path.native());
  ImageFolderLayout layout;
  layout.classes = given.empty() ? names : given;
  if (!given.empty())
    if (const auto unknown = missing_from(given, names); !unknown.empty())
      reject("{}: expected folders of the classes in data.labels, got {}", options.path.native(), some_of(unknown));
  if (layout.classes.size() < 2)
    reject("{}: expected two classes at least, got one: {}", options.path.native(), some_of(layout.classes));
  const ClassIndex index(layout.classes);
  layout.train = by_folders(pictures.tree, train, index);

  Pictures others = pictures;
  fs::path root = options.path;
  Level validation = std::move(found.validation);
  if (!options.validation.empty()) {
    others = pictures_at(options.validation, *options.files);
    root = options.validation;
    Level top = top_of(others);
    const auto* const split = find_split(top, evaluation);
    validation = split != nullptr ? level_of(others, joined(top.folder, split->first)) : std::move(top);
    found.only_validation = false;
    if (validation.children.empty() && validation.files.empty())
      reject("data.validation: {}: expected images, got none", options.validation.native());
  }
  const std::string where = name_of(validation, root);
  std::optional<LabelFile> file;
  const bool has_images = !validation.children.empty() || !validation.files.empty();
  const std::vector<std::string> validation_classes = names_in(validation);
  if (given.empty()) refuse_lookalikes(validation_classes, root.native());
  const auto unknown = missing_from(layout.classes, validation_classes);
  if (has_images && (!unknown.empty() || !validation.files.empty() || !options.val_labels.empty()))
    file = find_label_file(*others.tree, validation, root, options.val_labels);
  // A competition's `test` has no classes.
  const bool is_unlabelled = has_images && !file && validation.children.empty() && options.validation.empty() &&
                             lower_case(base_name(validation.folder)) == "test";
  std::string evaluated;
  if (has_images && !is_unlabelled) {
    if (file) {
      layout.validation = by_label_file(others.tree, validation, *file, layout.classes);
      evaluated = fmt::format("{}, classes from {}", where, file->name());
    } else {
      if (validation.children.empty())
        reject(
            "{}: {} validation images lie in no folders of classes: expected data.val_labels, a file with their "
            "names and classes, as ImageNet's LOC_val_solution.csv; data.path={} holds out a part of the others",
            where, validation.files.size(), (options.path / train.folder).native());
      refuse_empty_classes(*others.tree, validation, root);
      const auto absent = missing_from(validation_classes, layout.classes);
      if (!unknown.empty() || (!absent.empty() && given.empty()))
        reject(
            "{}: the classes of the validation images differ from those of the training images:{}{}", where,
            unknown.empty() ? "" : fmt::format(" {} only here", some_of(unknown)),
            absent.empty() ? "" : fmt::format(" {} not here; data.labels names the classes of both", some_of(absent)));
      layout.validation = by_folders(others.tree, validation, index);
      evaluated = where;
    }
    if (options.hold_out.fraction != usual_fraction)
      reject("data.val_fraction is {}, but {} has images to evaluate on", options.hold_out.fraction, where);
  } else if (options.hold_out.how == HoldOut::none) {
    layout.validation = layout.train;
    evaluated = "all, in an evaluation";
  } else {
    if (!options.val_labels.empty())
      reject("data.val_labels: expected a folder with validation images besides, got none");
    layout.held_out = hold_out(options.hold_out, train.folder, layout.train, layout.validation);
    if (layout.validation.files.empty())
      reject("{}: no image can be held out for evaluation, since each class has one: data.validation names a folder",
             options.path.native());
    evaluated = describe_held_out(*layout.held_out, options.hold_out.fraction);
  }
  std::vector<std::string> left_out;
  if (!train.files.empty())
    left_out.push_back(fmt::format("{} images beside the folders are left out", train.files.size()));
  if (is_unlabelled)
    left_out.push_back(
        fmt::format("{} images in {} are left out, since nothing tells their classes", validation.files.size(), where));
  else if (!validation.files.empty() && !file)
    left_out.push_back(fmt::format("{} images beside the folders of {} are left out", validation.files.size(), where));
  if (!found.beside.empty() && options.validation.empty())
    left_out.push_back(fmt::format("{} {} left out", some_of(found.beside), found.beside.size() == 1 ? "is" : "are"));
  std::map<std::string, std::int64_t> kinds = pictures.files->kinds;
  if (file && others.tree == pictures.tree)  // is read
    if (const auto found_kind = kinds.find(fs::path(file->name()).extension().string()); found_kind != kinds.end())
      if (--found_kind->second == 0) kinds.erase(found_kind);
  if (std::string text = describe_left_out(kinds); !text.empty()) left_out.push_back(std::move(text));
  layout.description = fmt::format(
      "imagefolder {}: {} classes: {}; {} images to train on{}, {} to evaluate on ({}){}{}{}", options.path.native(),
      layout.classes.size(), some_of(layout.classes), layout.train.files.size(),
      train.folder.empty() ? "" : fmt::format(" ({})", train.folder), layout.validation.files.size(), evaluated,
      found.only_validation ? no_others_to_train_on : "", left_out.empty() ? "" : "; ", fmt::join(left_out, "; "));
  return layout;
}

}  // namespace lacuna
