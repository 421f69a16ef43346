// Boxes of COCO: files of JSON with `images`, `annotations` and `categories`.
#include "core/error.h"
#include "core/json.h"
#include "data/detection/box_layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

namespace lacuna {
namespace {

using Json = nlohmann::json;
constexpr std::int64_t longest_annotations = std::int64_t{1} << 32;

/// Whether a file of JSON begins as COCO's annotations do.
bool begins_as_coco(const FileTree& tree, std::int64_t file) {
  std::array<std::uint8_t, 4096> bytes{};
  const std::span<std::uint8_t> begin = tree.read_begin(file, bytes);
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  return std::ranges::any_of(std::array{"\"images\"", "\"annotations\"", "\"categories\""},
                             [&](const char* key) { return text.find(key) != text.npos; });
}

/// Whether folders are in a folder `name`, as those of classes are.
bool has_folders_in(const FileTree& tree, std::string_view name) {
  return std::ranges::any_of(tree.folders(), [&](const std::string& folder) {
    return ("/" + folder).find(fmt::format("/{}/", name)) != std::string::npos;
  });
}

std::map<SplitName, std::vector<std::int64_t>> find_coco(const FileTree& tree) {
  std::map<SplitName, std::vector<std::int64_t>> found;
  for (std::int64_t file = 0; file < tree.size(); ++file) {
    const std::string_view path = tree.path(file), name = path.substr(path.rfind('/') + 1);
    if (!name.ends_with(".json")) continue;
    const std::string_view stem = name.substr(0, name.rfind('.')), path_of_stem = path.substr(0, path.rfind('.'));
    const auto is_of_split = [&] {  // in `annotations`, or beside its folder of images
      if (split_named(stem) == SplitName::none) return false;
      const std::string_view folder = folder_of(path);
      const bool is_in_annotations = folder == "annotations/" || folder.ends_with("/annotations/");
      if (!is_in_annotations && std::ranges::find(tree.folders(), path_of_stem) == tree.folders().end()) return false;
      // Annotations of classes, as iNaturalist's, have the same form.
      return begins_as_coco(tree, file) && (!has_folders_in(tree, stem) || tree.has_bytes(file, "\"bbox\""));
    };
    if (name.starts_with("instances_") || name == "_annotations.coco.json" || is_of_split())
      found[side_of_path(path)].push_back(file);
  }
  return found;
}

/// The text without outlines, which are nine tenths of it.
Json without_outlines(const std::string& text, const std::string& origin) {
  check_json_depth(text, origin);
  const auto keep = [](int, Json::parse_event_t event, const Json& value) {
    return event != Json::parse_event_t::key || (value != "segmentation" && value != "caption");
  };
  try {
    return Json::parse(text, keep);
  } catch (const Json::exception& error) {
    reject("{}: expected JSON: {}", origin, error.what());
  }
}

const Json& list_of(const Json& all, const char* name, const std::string& origin) {
  if (!all.is_object() || !all.contains(name) || !all[name].is_array())
    reject("{}: expected a list `{}`, as in COCO's annotations", origin, name);
  return all[name];
}
template <class T>
T value_of(const Json& from, const char* name, const std::string& place) {
  const auto found = from.is_object() ? from.find(name) : from.end();
  if constexpr (std::is_same_v<T, std::string>) {
    if (found != from.end() && found->is_string()) return found->get<T>();
  } else if constexpr (std::is_integral_v<T>) {
    if (found != from.end() && found->is_number_integer()) return found->get<T>();
  } else if (found != from.end() && found->is_number()) {
    return found->get<T>();
  }
  reject("{}: expected {} `{}`, got {}", place, std::is_same_v<T, std::string> ? "a text" : "a number", name,
         from.dump().substr(0, 200));
}

ObjectBox box_of(const Json& from, const std::string& place) {
  const auto bounds = from.find("bbox");
  const bool is_box = bounds != from.end() && bounds->is_array() && bounds->size() == 4 &&
                      std::ranges::all_of(*bounds, [](const Json& v) { return v.is_number(); });
  if (!is_box)
    reject("{}: expected `bbox` [left, top, width, height], got {}", place,
           bounds == from.end() ? "none" : bounds->dump().substr(0, 200));
  const auto [x, y, w, h] = bounds->get<std::array<double, 4>>();
  ObjectBox box{.corners = {x, y, x + w, y + h}};
  if (from.contains("area")) box.area = value_of<double>(from, "area", place);
  if (from.contains("iscrowd") && value_of<std::int64_t>(from, "iscrowd", place) != 0) box.uncounted = Uncounted::crowd;
  return box;
}

/// Refuses boxes that look like corners: most reach beyond their images, and all would be corners within them.
void refuse_corners(const std::map<std::int64_t, BoxedImage>& images, const std::string& origin) {
  constexpr double rounding = 1;
  std::int64_t boxes = 0, beyond = 0;
  for (const auto& [id, image] : images)
    for (const ObjectBox& box : image.boxes) {
      const auto [x, y, right, bottom] = box.corners;
      const double width = static_cast<double>(image.width) + rounding,
                   height = static_cast<double>(image.height) + rounding;
      if (right - x < x || bottom - y < y || right - x > width || bottom - y > height) return;
      ++boxes;
      beyond += right > width || bottom > height ? 1 : 0;
    }
  if (2 * beyond > boxes)
    reject(
        "{}: expected `bbox` as [left, top, width, height], got {} of {} boxes that reach beyond their images; they "
        "look "
        "like [left, top, right, bottom]: subtract left and top from the last two",
        origin, beyond, boxes);
}

std::vector<BoxedImage> read_coco(const FileTree& tree, const std::vector<std::int64_t>& annotations, SplitName side,
                                  BoxClasses& classes) {
  const std::string origin = tree.origin(annotations.front());
  if (annotations.size() > 1)
    reject("{}: expected one file of annotations for a split, got also {}", origin, tree.origin(annotations[1]));
  const Json all = without_outlines(tree.read_text(annotations.front(), longest_annotations), origin);
  std::map<std::int64_t, std::string> names;  // categories in the order of their ids, which have gaps
  for (const Json& category : list_of(all, "categories", origin)) {
    const std::string place = origin + ": categories";
    const auto id = value_of<std::int64_t>(category, "id", place);
    if (!names.emplace(id, value_of<std::string>(category, "name", place)).second)
      reject("{}: id {} is there twice", place, id);
  }
  std::map<std::int64_t, std::int64_t> labels;
  for (const auto& [id, name] : names) labels[id] = classes.label_of(name, origin);
  const ImageNames files(tree);
  std::map<std::int64_t, BoxedImage> images;
  for (const Json& image : list_of(all, "images", origin)) {
    const std::string place = origin + ": images";
    const auto id = value_of<std::int64_t>(image, "id", place);
    const BoxedImage made{.file = files.find(value_of<std::string>(image, "file_name", place), side, origin),
                          .height = value_of<std::int64_t>(image, "height", place),
                          .width = value_of<std::int64_t>(image, "width", place)};
    if (made.height < 1 || made.width < 1)
      reject("{}: expected image {} of 1 x 1 pixels at least, got {} x {} (width, height)", place, id, made.width,
             made.height);
    if (!images.emplace(id, made).second) reject("{}: id {} is there twice", place, id);
  }
  for (const Json& annotation : list_of(all, "annotations", origin)) {
    const std::string place =
        fmt::format("{}: annotation {}", origin, value_of<std::int64_t>(annotation, "id", origin + ": annotations"));
    const auto image = images.find(value_of<std::int64_t>(annotation, "image_id", place));
    if (image == images.end()) reject("{}: image {} is not in `images`", place, annotation["image_id"].dump());
    const auto label = labels.find(value_of<std::int64_t>(annotation, "category_id", place));
    if (label == labels.end())
      reject("{}: category {} is not in `categories`", place, annotation["category_id"].dump());
    ObjectBox box = box_of(annotation, place);
    box.label = label->second;
    image->second.boxes.push_back(box);
  }
  refuse_corners(images, origin);
  std::vector<BoxedImage> made;
  for (auto& [id, image] : images) made.push_back(std::move(image));
  return made;
}

}  // namespace

const BoxFormat coco_format{.name = "COCO", .find = find_coco, .read = read_coco};

}  // namespace lacuna
