#include "data/detection/box_layout.h"

#include "core/error.h"
#include "core/text.h"
#include "data/encoded_images.h"
#include "data/files/picture_names.h"
#include "data/sets/image_folder_layout.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <tuple>
#include <utility>

namespace lacuna {

BoxClasses::BoxClasses(std::vector<std::string> names) : names_(std::move(names)), are_given_(!names_.empty()) {
  for (const std::string& name : names_) labels_.emplace(name, std::ssize(labels_));
}

std::int64_t BoxClasses::label_of(const std::string& name, const std::string& place) {
  const auto found = labels_.find(name);
  if (found != labels_.end()) return found->second;
  if (are_given_)
    reject("{}: class \"{}\" is none of {}, those of training or data.labels", place, name, fmt::join(names_, ", "));
  names_.push_back(name);
  return labels_[name] = std::ssize(names_) - 1;
}

SplitName side_of_path(std::string_view path) {
  SplitName side = SplitName::none, of_part = SplitName::none;
  bool is_clear = true;
  std::string word;
  for (const char c : lower_case(path) + "/") {
    if ('a' <= c && c <= 'z') {
      word += c;
      continue;
    }
    if (const SplitName told = split_named(word); told != SplitName::none) {
      is_clear = is_clear && (of_part == SplitName::none || of_part == told);
      of_part = told;
    }
    word.clear();
    if (c != '/') continue;
    if (is_clear && of_part != SplitName::none) side = of_part;
    of_part = SplitName::none;
    is_clear = true;
  }
  return side;
}

std::string_view folder_of(std::string_view path) { return path.substr(0, path.rfind('/') + 1); }

namespace {

/// VOC's masks have the names of its images.
bool is_of_masks(std::string_view path) {
  return path.find("SegmentationClass/") != path.npos || path.find("SegmentationObject/") != path.npos;
}

}  // namespace

ImageNames::ImageNames(const FileTree& tree) : tree_(tree) {
  for (std::int64_t file = 0; file < tree.size(); ++file) {
    const std::string_view path = tree.path(file), name = path.substr(path.rfind('/') + 1);
    if (!is_image_name(name) || is_of_masks(path)) continue;
    by_name_.emplace(name, file);
    by_name_.emplace(name.substr(0, name.rfind('.')), file);
  }
}

std::int64_t ImageNames::find(std::string_view name, SplitName side, const std::string& place) const {
  const auto [begin, end] = by_name_.equal_range(name.substr(name.rfind('/') + 1));
  std::vector<std::int64_t> found, of_side;
  for (auto entry = begin; entry != end; ++entry) {
    const std::string_view path = tree_.path(entry->second);
    if (name.find('/') != name.npos && !path.ends_with(name)) continue;
    found.push_back(entry->second);
    if (side_of_path(folder_of(path)) == side) of_side.push_back(entry->second);
  }
  if (found.size() > 1 && of_side.size() == 1) return of_side.front();
  if (found.size() != 1)
    reject("{}: expected one image \"{}\" in the folder, got {}{}", place, name, found.size(),
           found.empty() ? "" : ", such as " + std::string(tree_.path(found.front())));
  return found.front();
}

namespace {

constexpr std::array formats{&coco_format, &yolo_format, &voc_format};

struct Found {
  const BoxFormat* format = nullptr;
  std::map<SplitName, std::vector<std::int64_t>> annotations;
};
Found find_format(const FileTree& tree) {
  for (const BoxFormat* const format : formats)
    if (auto annotations = format->find(tree); !annotations.empty()) return {format, std::move(annotations)};
  return {};
}

BoxedImages read_side(const BoxFormat& format, std::shared_ptr<const FileTree> tree,
                      const std::vector<std::int64_t>& annotations, SplitName side, BoxClasses& classes) {
  BoxedImages made{.tree = tree, .images = format.read(*tree, annotations, side, classes)};
  made.in_fractions = format.in_fractions;
  clean(made, tree->origin(annotations.front()));
  return made;
}

std::int64_t boxes_of(const BoxedImages& images) {
  std::int64_t boxes = 0;
  for (const BoxedImage& image : images.images) boxes += std::ssize(image.boxes);
  return boxes;
}

}  // namespace

BoxLayout find_boxes(std::shared_ptr<const FileTree> tree, const std::string& path,
                     const std::vector<std::string>& classes, const HoldOutOptions& hold_out) {
  const Found found = find_format(*tree);
  if (found.format == nullptr)
    reject(
        "{}: expected COCO's annotations (instances_train*.json, annotations/train.json, train.json beside a folder "
        "train, or train/_annotations.coco.json), YOLO's (labels/ with a text for each image of images/) or VOC's "
        "(XML)",
        path);
  const BoxFormat& format = *found.format;
  BoxClasses names(!classes.empty() || format.classes == nullptr ? classes : format.classes(*tree));
  if (format.classes != nullptr && names.names().empty())
    reject("{}: expected the names of the classes in data.yaml or classes.txt, or as data.labels", path);
  auto annotations = found.annotations;
  const auto take = [&](std::initializer_list<SplitName> sides) {  // the first that is there
    for (const SplitName side : sides)
      if (auto taken = annotations.extract(side)) return std::pair(side, std::move(taken.mapped()));
    return std::pair(SplitName::none, std::vector<std::int64_t>());
  };
  auto [trained, train_files] = take({SplitName::train, SplitName::none});
  auto [evaluated, files] = take({SplitName::validation, SplitName::test});
  const bool only_evaluated = train_files.empty();
  if (only_evaluated) std::tie(trained, train_files) = std::pair(evaluated, std::exchange(files, {}));
  BoxLayout made;
  made.train = read_side(format, tree, train_files, trained, names);
  if (names.names().empty()) reject("{}: expected boxes with classes, got none", path);
  made.classes = names.names();
  BoxClasses known(made.classes);
  if (!files.empty()) made.validation = read_side(format, tree, files, evaluated, known);
  std::string notes;
  if (!files.empty() || only_evaluated) {
    if (hold_out.fraction != usual_fraction)
      reject("data.val_fraction is {}, but {} has images with boxes to evaluate on", hold_out.fraction, path);
  }
  if (only_evaluated || (files.empty() && hold_out.how == HoldOut::none)) {
    made.validation = made.train;
    made.validation.left_out = made.validation.clipped = 0;  // counted once
    if (only_evaluated) notes += no_others_to_train_on;
  } else if (files.empty()) {
    std::vector<std::string> paths;
    for (const BoxedImage& image : made.train.images) paths.emplace_back(tree->path(image.file));
    made.validation = {.tree = tree, .images = {}, .in_fractions = format.in_fractions};
    made.held_out = hold_some_out(paths, hold_out, made.train.images, made.validation.images);
    if (made.validation.images.empty())
      reject("{}: no image can be held out for evaluation, since there is one alone", path);
    notes = "; " + describe_held_out(*made.held_out, hold_out.fraction);
  }
  for (const auto& [side, unused] : annotations)
    notes += fmt::format("; of other splits and left out: {} files, as {}", unused.size(), tree->path(unused.front()));
  const std::int64_t left_out = made.train.left_out + made.validation.left_out,
                     clipped = made.train.clipped + made.validation.clipped;
  std::int64_t crowds = 0;
  for (BoxedImage& image : made.train.images)
    crowds += std::erase_if(image.boxes, [](const ObjectBox& box) { return box.uncounted != Uncounted::no; });
  made.description = fmt::format(
      "{}: {} and {} images with {} and {} boxes of {} classes{}{}{}{}", format.name, made.train.images.size(),
      made.validation.images.size(), boxes_of(made.train), boxes_of(made.validation), made.classes.size(),
      crowds > 0 ? fmt::format(", {} of crowds or difficult left out of training", crowds) : "",
      left_out > 0 ? fmt::format(", {} without width or height left out", left_out) : "",
      clipped > 0 ? fmt::format(", {} beyond their images clipped", clipped) : "", notes);
  return made;
}

bool has_boxes(const FileTree& tree) {
  if (!coco_format.find(tree).empty() || !yolo_format.find(tree).empty()) return true;
  const auto has_folder = [&](std::string_view name) {
    return std::ranges::any_of(tree.folders(), [&](const std::string& folder) { return folder.ends_with(name); });
  };
  return has_folder("Annotations") && !has_folder("SegmentationClass") && !voc_format.find(tree).empty();
}

}  // namespace lacuna
