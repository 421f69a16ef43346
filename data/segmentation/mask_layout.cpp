#include "data/segmentation/mask_layout.h"

#include "core/error.h"
#include "core/text.h"
#include "data/encoded_images.h"
#include "data/files/picture_names.h"
#include "data/files/split_names.h"
#include "data/labels.h"
#include "data/segmentation/mask_kinds.h"
#include "data/sets/image_folder_layout.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 6> image_folders{"images", "image", "imgs", "img", "jpegimages", "leftimg8bit"};
constexpr std::array<std::string_view, 12> mask_folders{"masks",
                                                        "mask",
                                                        "labels",
                                                        "label",
                                                        "annotations",
                                                        "annotation",
                                                        "segmentationclass",
                                                        "segmentationclassaug",
                                                        "gtfine",
                                                        "gt",
                                                        "groundtruth",
                                                        "ground_truth"};
constexpr std::string_view image_ending = "_leftImg8bit";
constexpr std::array<std::string_view, 8> mask_endings{"_gtFine_labelIds", "_mask", "_masks", "-mask",
                                                       "_label",           "_seg",  "_gt",    "_L"};
const std::string voc_lists = "ImageSets/Segmentation/";
constexpr std::int64_t longest_list = 64 << 20;

bool is_one_of(std::string_view name, const auto& names) { return std::ranges::find(names, name) != names.end(); }

enum class Role : std::uint8_t { other, image, mask };

/// A split, also as COCO's `train2017`.
SplitName side_of(std::string_view folder) {
  while (!folder.empty() && ('0' <= folder.back() && folder.back() <= '9')) folder.remove_suffix(1);
  return split_named(folder);
}

/// A picture, as its path tells.
struct Named {
  Role role = Role::other;
  SplitName side = SplitName::none;
  std::string folder{};  // with `*` for the folder of images or masks
  std::string stem{};    // without extension
  std::string place{};   // the folder of images or masks, as it is written
  bool is_part = true;   // false: Cityscapes' other pictures
  std::string key() const { return folder + stem; }
};

/// The folder's role, and what its name has before `_images` or `_masks`.
std::pair<Role, std::string> role_of(std::string_view folder) {
  const std::string name = lower_case(folder);
  if (is_one_of(name, image_folders)) return {Role::image, ""};
  if (is_one_of(name, mask_folders)) return {Role::mask, ""};
  const std::size_t cut = name.find_last_of("_-");
  if (cut == std::string::npos) return {};
  const std::string_view last = std::string_view(name).substr(cut + 1);
  if (last == "images") return {Role::image, std::string(folder.substr(0, cut))};
  if (last == "masks" || last == "labels") return {Role::mask, std::string(folder.substr(0, cut))};
  return {};
}

/// Folders beside which others have their name and `_masks`, as `train` and `train_masks`.
using Bases = std::set<std::string, std::less<>>;

/// `bases`: of the tree.
Named named(std::string_view path, const Bases& bases) {
  Named found;
  const std::size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  for (std::size_t at = 0; slash != std::string_view::npos && at <= slash;) {
    const std::size_t end = path.find('/', at);
    const std::string_view folder = path.substr(at, end - at);
    auto [role, before] = found.role == Role::other ? role_of(folder) : std::pair<Role, std::string>();
    if (found.role == Role::other && role == Role::other && bases.contains(path.substr(0, end)))
      std::tie(role, before) = std::pair(Role::image, std::string(folder));
    if (role != Role::other) {
      found.role = role;
      found.place = lower_case(folder);
      found.folder += before + "*";
    } else {
      found.folder += folder;
    }
    found.folder += '/';
    if (const SplitName side = side_of(role == Role::other ? folder : before); found.side == SplitName::none)
      found.side = side;
    at = end + 1;
  }
  found.stem = name.substr(0, name.rfind('.'));
  if (found.role == Role::image && found.stem.ends_with(image_ending))
    found.stem.resize(found.stem.size() - image_ending.size());
  found.is_part = found.place != "gtfine" || found.stem.ends_with(mask_endings.front());
  return found;
}

/// The key without an ending of masks; nothing without one.
std::optional<std::string> without_ending(const Named& mask) {
  for (const std::string_view ending : mask_endings)
    if (lower_case(mask.stem).ends_with(lower_case(ending)))
      return mask.folder + mask.stem.substr(0, mask.stem.size() - ending.size());
  return {};
}

struct Found {
  std::shared_ptr<const FileTree> tree;
  std::map<std::string, std::int32_t> images{};                  // by key
  std::map<std::string, MaskPair> pairs{};                       // by key
  std::map<std::string, SplitName> sides{};                      // of pairs
  std::vector<std::int32_t> widowed{};                           // masks without an image
  std::vector<std::int32_t> bare{};                              // images without a mask
  std::optional<std::pair<std::int32_t, std::int32_t>> twice{};  // masks of one image
  std::optional<std::pair<std::int32_t, std::int32_t>> alike{};  // images of one name
  bool has_folders = false;                                      // of images or of masks
};

Bases bases_of(const FileTree& tree) {
  Bases bases;
  for (const std::string& folder : tree.folders()) {
    const std::size_t slash = folder.rfind('/') + 1;  // 0 without one
    const auto [role, before] = role_of(std::string_view(folder).substr(slash));
    if (role == Role::mask && !before.empty()) bases.insert(folder.substr(0, slash) + before);
  }
  return bases;
}

Found find(const std::shared_ptr<const FileTree>& tree, bool augmented_voc) {
  Found found{.tree = tree};
  std::vector<std::pair<std::int32_t, Named>> pictures;
  const Bases bases = bases_of(*tree);
  for (std::int64_t file = 0; file < tree->size(); ++file) {
    const std::string_view path = tree->path(file);
    if (!is_image_name(path)) continue;
    Named one = named(path, bases);
    found.has_folders = found.has_folders || one.role != Role::other;
    pictures.emplace_back(static_cast<std::int32_t>(file), std::move(one));
  }
  bool has_augmented = false;
  for (auto& [file, one] : pictures) {
    has_augmented = has_augmented || one.place == "segmentationclassaug";
    if (!found.has_folders) one.role = without_ending(one) ? Role::mask : Role::image;
    if (one.role != Role::image) continue;
    const auto [image, fresh] = found.images.emplace(one.key(), file);
    if (!fresh && !found.alike) found.alike = {image->second, file};
  }
  for (const auto& [file, one] : pictures) {
    if (one.role != Role::mask || !one.is_part) continue;
    if (has_augmented && one.place.starts_with("segmentationclass") &&
        augmented_voc != (one.place == "segmentationclassaug"))
      continue;
    auto image = found.has_folders ? found.images.find(one.key()) : found.images.end();
    if (const auto shorter = without_ending(one); image == found.images.end() && shorter)
      image = found.images.find(*shorter);
    if (image == found.images.end()) {
      found.widowed.push_back(file);
      continue;
    }
    const auto [pair, fresh] = found.pairs.emplace(image->first, MaskPair{image->second, file});
    if (!fresh && !found.twice) found.twice = {pair->second.mask, file};
    found.sides.emplace(image->first, one.side);
  }
  for (const auto& [key, file] : found.images)
    if (!found.pairs.contains(key)) found.bare.push_back(file);
  return found;
}

std::string some_files(const FileTree& tree, const std::vector<std::int32_t>& files) {
  constexpr std::size_t most = 5;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(most, files.size()); ++i) names.emplace_back(tree.path(files[i]));
  return fmt::format("{}{}", fmt::join(names, ", "), files.size() > most ? ", ..." : "");
}

/// Rejects what has no partner or several.
void check_partners(const Found& found, const fs::path& path) {
  const FileTree& tree = *found.tree;
  if (found.twice)
    reject("{}: two masks belong to one image: {} and {}; remove one", path.native(), tree.path(found.twice->first),
           tree.path(found.twice->second));
  if (found.alike)
    reject("{}: two images have one name: {} and {}; remove one", path.native(), tree.path(found.alike->first),
           tree.path(found.alike->second));
  if (!found.widowed.empty())
    reject("{}: {} no image of the same name: {}", path.native(),
           found.widowed.size() == 1 ? "1 mask has" : fmt::format("{} masks have", found.widowed.size()),
           some_files(tree, found.widowed));
  if (found.pairs.empty())
    reject("{}: expected images and masks of the same names, as images/a.jpg and masks/a.png, got {}", path.native(),
           found.bare.empty() ? "none" : fmt::format("images without masks: {}", some_files(tree, found.bare)));
}

/// The folder of VOC's lists; nothing where there are none.
std::optional<std::string> folder_of_lists(const FileTree& tree) {
  std::optional<std::string> found;
  for (std::int64_t file = 0; file < tree.size(); ++file) {
    const std::size_t at = tree.path(file).find(voc_lists);
    if (at == std::string_view::npos) continue;
    const std::string_view folder = tree.path(file).substr(0, at + voc_lists.size());
    if (found && *found != folder)
      reject("expected lists of VOC in one folder, got {} and {}: data.path names one", *found, folder);
    found = folder;
  }
  return found;
}

/// The pairs that a list of VOC names, in its order.
std::vector<MaskPair> listed(const Found& found, const std::string& list, const fs::path& path) {
  const std::int64_t file = found.tree->find(list);
  if (file < 0) reject("{}: expected the list {}", path.native(), list);
  const std::string root = list.substr(0, list.size() - list.substr(list.rfind(voc_lists)).size());
  std::vector<MaskPair> pairs;
  std::istringstream lines(found.tree->read_text(file, longest_list));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string name(without_blanks(line));
    if (name.empty()) continue;
    const auto pair = found.pairs.find(root + "*/" + name);
    if (pair == found.pairs.end())
      reject("{}:{}: expected an image and a mask of the name {}, got no {}", found.tree->origin(file), number, name,
             found.images.contains(root + "*/" + name) ? "mask" : "image");
    pairs.push_back(pair->second);
  }
  if (pairs.empty()) reject("{}: expected names of images, a line each, got none", found.tree->origin(file));
  return pairs;
}

/// The file of one of some names that lies highest.
std::int64_t highest(const FileTree& tree, std::initializer_list<std::string_view> names) {
  std::int64_t best = -1;
  const auto depth = [&](std::int64_t file) { return std::ranges::count(tree.path(file), '/'); };
  for (std::int64_t file = 0; file < tree.size(); ++file) {
    const std::string_view path = tree.path(file);
    if (is_one_of(path.substr(path.rfind('/') + 1), names) && (best < 0 || depth(file) < depth(best))) best = file;
  }
  return best;
}

MaskKind kind_of(const Found& found, bool is_voc) {
  const FileTree& tree = *found.tree;
  if (const std::int64_t file = highest(tree, {"objectInfo150.txt"}); file >= 0)
    return ade20k_masks(tree.read_text(file), tree.origin(file));
  if (named(tree.path(found.pairs.begin()->second.mask), {}).place == "gtfine") return cityscapes_masks();
  MaskKind kind = is_voc ? voc_masks() : MaskKind();
  if (const std::int64_t file = highest(tree, {"classes.txt", "class_names.txt", "labels.txt"}); file >= 0) {
    kind = {.name = fmt::format("classes of {}", tree.path(file))};
    std::istringstream lines(tree.read_text(file));
    for (std::string line; std::getline(lines, line);)
      if (std::string name(without_blanks(line)); !name.empty()) kind.classes.push_back(std::move(name));
  }
  return kind;
}

}  // namespace

bool has_masks(const fs::path& path, OpenedFiles& files) {
  const Found found = find(tree_at(path, files), false);
  // Names with endings alone say little.
  return !found.pairs.empty() && (found.has_folders || (found.widowed.empty() && found.bare.empty()));
}

MaskLayout find_masks(const MaskLayoutOptions& options) {
  const auto tree = tree_at(options.path, *options.files);
  const std::optional<std::string> lists = folder_of_lists(*tree);
  const Found found = find(tree, options.list == "trainaug");
  check_partners(found, options.path);
  MaskLayout layout;
  layout.kind = kind_of(found, lists.has_value());
  layout.train.tree = layout.validation.tree = tree;
  std::int64_t unused = 0;  // pairs of neither side
  bool only_evaluated = false;
  if (!options.list.empty() && !lists) reject("data.list: {} has no lists in {}", options.path.native(), voc_lists);
  if (lists) {
    layout.train.pairs = listed(found, *lists + (options.list.empty() ? "train" : options.list) + ".txt", options.path);
    if (tree->find(*lists + "val.txt") >= 0) layout.validation.pairs = listed(found, *lists + "val.txt", options.path);
  } else {
    const auto is = [&](SplitName side) {
      return std::ranges::any_of(found.sides, [&](const auto& entry) { return entry.second == side; });
    };
    const bool has_train = is(SplitName::train);
    const SplitName evaluated = is(SplitName::validation) ? SplitName::validation : SplitName::test;
    for (const auto& [key, side] : found.sides) {
      if (has_train ? side == SplitName::train : side == SplitName::none)
        layout.train.pairs.push_back(found.pairs.at(key));
      else if (side == evaluated)
        layout.validation.pairs.push_back(found.pairs.at(key));
      else
        ++unused;
    }
    if (layout.train.pairs.empty()) {
      layout.train.pairs = layout.validation.pairs;
      only_evaluated = true;
    }
  }
  std::string evaluated = "to evaluate on";
  if (!options.validation.empty()) {
    const Found other = find(tree_at(options.validation, *options.files), false);
    check_partners(other, options.validation);
    layout.validation = {other.tree, {}};
    for (const auto& [key, pair] : other.pairs) layout.validation.pairs.push_back(pair);
  }
  if (!layout.validation.pairs.empty()) {
    if (options.hold_out.fraction != usual_fraction)
      reject("data.val_fraction is {}, but {} has masks to evaluate on", options.hold_out.fraction,
             (options.validation.empty() ? options.path : options.validation).native());
  } else if (options.hold_out.how == HoldOut::none) {
    layout.validation = layout.train;
  } else {
    std::vector<std::string> paths;
    for (const MaskPair& pair : layout.train.pairs) paths.emplace_back(tree->path(pair.image));
    layout.held_out = hold_some_out(paths, options.hold_out, layout.train.pairs, layout.validation.pairs);
    if (layout.validation.pairs.empty())
      reject("{}: no image can be held out for evaluation, since there is one alone: data.validation names a folder",
             options.path.native());
    evaluated += fmt::format(" ({})", describe_held_out(*layout.held_out, options.hold_out.fraction));
  }
  if (only_evaluated && options.validation.empty()) evaluated += std::string(no_others_to_train_on);
  if (unused > 0) evaluated += fmt::format("; {} images with masks of other splits are left out", unused);
  layout.description =
      fmt::format("mask_folder {}{}: {} images with masks to train on, {} {}{}", options.path.native(),
                  layout.kind.name.empty() ? "" : fmt::format(" ({})", layout.kind.name), layout.train.pairs.size(),
                  layout.validation.pairs.size(), evaluated,
                  found.bare.empty() || lists ? ""
                                              : fmt::format("; {} images without masks are left out: {}",
                                                            found.bare.size(), some_files(*tree, found.bare)));
  return layout;
}

}  // namespace lacuna
