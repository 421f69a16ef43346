// Boxes of Pascal VOC: an XML file for each image.
#include "core/error.h"
#include "data/detection/box_layout.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

namespace lacuna {
namespace {

const std::string lists = "ImageSets/Main/";

std::map<BoxSide, std::vector<std::int64_t>> find_voc(const FileTree& tree) {
  std::map<BoxSide, std::vector<std::int64_t>> found;
  std::map<std::string, std::int64_t, std::less<>> by_stem;
  std::string root;  // of the lists
  bool has_lists = false;
  for (std::int64_t file = 0; file < tree.size(); ++file) {
    const std::string_view path = tree.path(file);
    if (const std::size_t at = path.find(lists); at != path.npos) {
      if (has_lists && root != path.substr(0, at))
        reject("{}: expected the lists {} in one folder, got them in \"{}\" and \"{}\"; data.path takes one of them",
               tree.origin(file), lists, root, path.substr(0, at));
      root = path.substr(0, at);
      has_lists = true;
    }
    if (!path.ends_with(".xml")) continue;
    const std::string_view name = path.substr(path.rfind('/') + 1);
    by_stem.emplace(name.substr(0, name.size() - 4), file);
    const BoxSide side = side_of_path(path);
    found[side == BoxSide::none ? BoxSide::train : side].push_back(file);
  }
  if (by_stem.empty() || tree.find(root + lists + "train.txt") < 0) return found;
  found.clear();
  for (const auto& [side, name] : {std::pair{BoxSide::train, "train.txt"}, std::pair{BoxSide::validation, "val.txt"}}) {
    const std::int64_t list = tree.find(root + lists + name);
    if (list < 0) continue;
    std::istringstream lines(tree.read_text(list, 64 << 20));
    for (std::string stem; lines >> stem;) {
      const auto file = by_stem.find(stem);
      if (file == by_stem.end()) reject("{}: no annotations for \"{}\"", tree.origin(list), stem);
      found[side].push_back(file->second);
    }
  }
  return found;
}

/// The contents of the elements `tag` that are not within one another.
std::vector<std::string_view> elements(std::string_view xml, const std::string& tag, const std::string& origin) {
  std::vector<std::string_view> found;
  const std::string open = "<" + tag + ">", close = "</" + tag + ">";
  for (std::size_t at = xml.find(open); at != xml.npos; at = xml.find(open)) {
    xml.remove_prefix(at + open.size());
    const std::size_t end = xml.find(close);
    if (end == xml.npos) reject("{}: <{}> has no end", origin, tag);
    found.push_back(xml.substr(0, end));
    xml.remove_prefix(end + close.size());
  }
  return found;
}

std::string_view only(std::string_view xml, const std::string& tag, const std::string& origin) {
  const std::vector<std::string_view> found = elements(xml, tag, origin);
  if (found.size() != 1) reject("{}: expected one <{}>, got {}", origin, tag, found.size());
  std::string_view text = found.front();
  while (!text.empty() && std::string_view(" \t\r\n").find(text.front()) != text.npos) text.remove_prefix(1);
  while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != text.npos) text.remove_suffix(1);
  return text;
}

double number(std::string_view xml, const std::string& tag, const std::string& origin) {
  const std::string_view text = only(xml, tag, origin);
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || !(value > -1e9 && value < 1e9))
    reject("{}: expected a number as <{}>, got \"{}\"", origin, tag, text);
  return value;
}

/// Without parts of objects, which have boxes of their own.
std::string without_parts(std::string xml, const std::string& origin) {
  for (std::size_t at = xml.find("<part>"); at != xml.npos; at = xml.find("<part>")) {
    const std::size_t end = xml.find("</part>", at);
    if (end == xml.npos) reject("{}: <part> has no end", origin);
    xml.erase(at, end + 7 - at);
  }
  return xml;
}

std::vector<BoxedImage> read_voc(const FileTree& tree, const std::vector<std::int64_t>& annotations, BoxSide side,
                                 BoxClasses& classes) {
  const ImageNames files(tree);
  std::vector<BoxedImage> made;
  for (const std::int64_t file : annotations) {
    const std::string origin = tree.origin(file), xml = without_parts(tree.read_text(file), origin);
    const std::string_view path = tree.path(file), name = path.substr(path.rfind('/') + 1);
    BoxedImage& image =
        made.emplace_back(BoxedImage{.file = files.find(name.substr(0, name.size() - 4), side, origin)});
    if (const auto sizes = elements(xml, "size", origin); !sizes.empty()) {
      image.width = static_cast<std::int64_t>(number(sizes.front(), "width", origin));
      image.height = static_cast<std::int64_t>(number(sizes.front(), "height", origin));
      const bool is_known = image.width > 0 && image.height > 0;
      if (!is_known && (image.width != 0 || image.height != 0))
        reject("{}: expected a size of 1 x 1 pixels at least, or 0 x 0 where it is unknown, got {} x {}", origin,
               image.width, image.height);
    }
    for (const std::string_view object : elements(xml, "object", origin)) {
      const std::string_view bounds = only(object, "bndbox", origin);
      const auto side_of = [&](const char* tag) { return number(bounds, tag, origin); };
      // Pixels are counted from 1, and the last one belongs to the object.
      ObjectBox box{.label = classes.label_of(std::string(only(object, "name", origin)), origin),
                    .corners = {side_of("xmin") - 1, side_of("ymin") - 1, side_of("xmax"), side_of("ymax")}};
      if (const auto marks = elements(object, "difficult", origin); !marks.empty() && marks.front() == "1")
        box.uncounted = Uncounted::difficult;
      image.boxes.push_back(box);
    }
  }
  return made;
}

}  // namespace

const BoxFormat voc_format{.name = "VOC", .find = find_voc, .read = read_voc};

}  // namespace lacuna
