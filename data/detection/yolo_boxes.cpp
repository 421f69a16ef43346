// Boxes of YOLO: for each image a text of lines `class x y width height` in fractions of the image, x and y of the
// centre; none, or an empty one: no object.
#include "core/error.h"
#include "core/yaml.h"
#include "data/detection/box_layout.h"
#include "data/files/picture_names.h"
#include "data/labels.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

namespace lacuna {
namespace {

constexpr std::string_view labels_folder = "labels/", images_folder = "images/";

/// The text of an image: `labels` in place of the last `images` of the path, or beside the image.
std::string text_of(std::string_view image) {
  std::string path(image.substr(0, image.rfind('.')));
  const std::size_t at = path.rfind(images_folder);
  if (at != path.npos && (at == 0 || path[at - 1] == '/')) path.replace(at, images_folder.size(), labels_folder);
  return path + ".txt";
}

std::map<SplitName, std::vector<std::int64_t>> find_yolo(const FileTree& tree) {
  const auto is_of_labels = [](std::string_view folder) { return folder == "labels" || folder.ends_with("/labels"); };
  if (std::ranges::none_of(tree.folders(), is_of_labels)) return {};
  bool has_texts = false;
  std::map<SplitName, std::vector<std::int64_t>> found;  // images
  for (std::int64_t file = 0; file < tree.size(); ++file) {
    if (!is_image_name(tree.path(file))) continue;
    const std::string text = text_of(tree.path(file));
    has_texts |= text.find(labels_folder) != text.npos && tree.find(text) >= 0;
    found[side_of_path(folder_of(tree.path(file)))].push_back(file);
  }
  if (!has_texts) return {};
  return found;
}

/// The `names` of a file of Ultralytics, which also says where images lie: a list, or a map from numbers.
std::vector<std::string> names_of_yaml(const std::string& text, const std::string& origin) {
  Problems problems;
  const Tree all = parse_yaml(text, {origin, 1, 1}, problems);
  problems.refuse_if_any();
  const TreeEntry *const names = all.find("names"), *const count = all.find("nc");
  const bool is_list = names != nullptr && names->value.kind == Tree::Kind::list;
  if (!is_list && (names == nullptr || names->value.kind != Tree::Kind::map))
    reject("{}: expected `names`, a list or a map of numbers and names", origin);
  std::vector<std::string> found(std::max(names->value.items.size(), names->value.entries.size()));
  const auto add = [&](const std::optional<std::int64_t>& number, const Tree& name) {
    if (!number || *number < 0 || *number >= std::ssize(found) || name.kind != Tree::Kind::scalar || name.text.empty())
      reject("{}: expected a name for each number from 0 to {}", to_string(name.where), std::ssize(found) - 1);
    if (std::ranges::find(found, name.text) != found.end())
      reject("{}: the class \"{}\" is there twice", to_string(name.where), name.text);
    found[static_cast<std::size_t>(*number)] = name.text;
  };
  for (std::size_t i = 0; i < names->value.items.size(); ++i) add(static_cast<std::int64_t>(i), names->value.items[i]);
  for (const TreeEntry& entry : names->value.entries) add(whole_number(entry.key), entry.value);
  if (count != nullptr && number_in(count->value) != static_cast<double>(found.size()))
    reject("{}: `nc` is {}, but `names` has {}", to_string(count->where), count->value.text, found.size());
  return found;
}

std::vector<std::string> names_of_yolo(const FileTree& tree) {
  for (const char* const name : {"data.yaml", "data.yml", "dataset.yaml"})
    if (const std::int64_t file = tree.find(name); file >= 0)
      return names_of_yaml(tree.read_text(file), tree.origin(file));
  const std::int64_t file = tree.find("classes.txt");
  std::vector<std::string> names;
  std::istringstream lines(file < 0 ? "" : tree.read_text(file));
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) names.push_back(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
  return names;
}

/// A side of a fraction that rounding may have moved out of the image.
double in_image(double value, const std::string& place) {
  constexpr double rounding = 1e-3;
  if (!(value >= -rounding && value <= 1 + rounding))
    reject("{}: expected a box within [0, 1], in fractions of the image, got a corner at {}", place, value);
  return std::clamp(value, 0.0, 1.0);
}

std::vector<BoxedImage> read_yolo(const FileTree& tree, const std::vector<std::int64_t>& images, SplitName,
                                  BoxClasses& classes) {
  std::vector<BoxedImage> made;
  std::map<std::string, std::int64_t> texts;  // images by text
  for (const std::int64_t image : images) {
    BoxedImage& one = made.emplace_back(BoxedImage{.file = image});
    const auto [text, fresh] = texts.emplace(text_of(tree.path(image)), image);
    if (!fresh)
      reject("{}: two images have one text of boxes: {} and {}; remove one", tree.origin(image),
             tree.path(text->second), tree.path(image));
    const std::int64_t file = tree.find(text->first);
    if (file < 0) continue;
    std::istringstream lines(tree.read_text(file));
    std::set<std::string> seen;
    std::int64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      const std::string place = fmt::format("{}:{}", tree.origin(file), number);
      std::istringstream cells(line);
      std::vector<double> values;
      for (std::string cell; cells >> cell;) {
        double value = 0;
        const auto [end, failed] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
        if (failed != std::errc() || end != cell.data() + cell.size())
          reject("{}: expected numbers `class x y width height`, got \"{}\"", place, cell);
        values.push_back(value);
      }
      if (values.empty() || !seen.insert(line).second) continue;  // a line that is there twice counts once
      if (values.size() != 5) reject("{}: expected `class x y width height`, got {} numbers", place, values.size());
      const std::vector<std::string>& names = classes.names();
      const bool is_class = values[0] >= 0 && values[0] < static_cast<double>(names.size());
      const std::int64_t label = is_class ? static_cast<std::int64_t>(values[0]) : 0;
      if (!is_class || values[0] != static_cast<double>(label))
        reject("{}: expected a class 0 to {}, got {}; data.yaml, classes.txt or data.labels name them", place,
               std::ssize(names) - 1, values[0]);
      one.boxes.push_back(
          {.label = label,
           .corners = {in_image(values[1] - values[3] / 2, place), in_image(values[2] - values[4] / 2, place),
                       in_image(values[1] + values[3] / 2, place), in_image(values[2] + values[4] / 2, place)}});
    }
  }
  return made;
}

}  // namespace

const BoxFormat yolo_format{
    .name = "YOLO", .find = find_yolo, .read = read_yolo, .in_fractions = true, .classes = names_of_yolo};

}  // namespace lacuna
