// Boxes of Pascal VOC: an XML file for each image.
#include "core/error.h"
#include "data/detection/box_layout.h"
#include "data/labels.h"

#include <charconv>
#include <iterator>
#include <optional>
#include <pugixml.hpp>
#include <sstream>

namespace lacuna {
namespace {

const std::string lists = "ImageSets/Main/";

/// The folder of the lists, without their own; nothing where there are none.
std::optional<std::string> root_of_lists(const FileTree& tree) {
  std::optional<std::string> root;
  for (std::int64_t file = 0; file < tree.size(); ++file) {
    const std::size_t at = tree.path(file).find(lists);
    if (at == std::string_view::npos) continue;
    const std::string_view own = tree.path(file).substr(0, at);
    if (root && *root != own)
      reject("{}: expected the lists {} in one folder, got them in \"{}\" and \"{}\"; data.path takes one of them",
             tree.origin(file), lists, *root, own);
    root = own;
  }
  return root;
}

std::map<SplitName, std::vector<std::int64_t>> find_voc(const FileTree& tree) {
  std::map<SplitName, std::vector<std::int64_t>> found;
  const std::optional<std::string> root = root_of_lists(tree);
  if (root && tree.find(*root + lists + "train.txt") >= 0) {
    for (const auto& [side, name] :
         {std::pair{SplitName::train, "train.txt"}, std::pair{SplitName::validation, "val.txt"}}) {
      const std::int64_t list = tree.find(*root + lists + name);
      if (list < 0) continue;
      std::istringstream lines(tree.read_text(list, 64 << 20));
      for (std::string stem; lines >> stem;) {
        found[side].push_back(tree.find(*root + "Annotations/" + stem + ".xml"));
        if (found[side].back() < 0) reject("{}: no annotations for \"{}\"", tree.origin(list), stem);
      }
    }
    return found;
  }
  for (std::int64_t file = 0; file < tree.size(); ++file)
    if (tree.path(file).ends_with(".xml")) found[side_of_path(folder_of(tree.path(file)))].push_back(file);
  return found;
}

/// The one element `tag` of `parent`.
pugi::xml_node only(const pugi::xml_node& parent, const char* tag, const std::string& origin) {
  const auto all = parent.children(tag);
  const auto count = std::distance(all.begin(), all.end());
  if (count != 1) reject("{}: expected one <{}>, got {}", origin, tag, count);
  return *all.begin();
}

/// An element's own text, which comments and CDATA may cut.
std::string text_in(const pugi::xml_node& element) {
  std::string text;
  for (const pugi::xml_node& part : element.children()) text += part.value();
  return std::string(without_blanks(text));
}

double number(const pugi::xml_node& parent, const char* tag, const std::string& origin) {
  const std::string text = text_in(only(parent, tag, origin));
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || !(value > -1e9 && value < 1e9))
    reject("{}: expected a number as <{}>, got \"{}\"", origin, tag, text);
  return value;
}

ObjectBox read_object(const pugi::xml_node& object, BoxClasses& classes, const std::string& origin) {
  const pugi::xml_node bounds = only(object, "bndbox", origin);
  const auto side_of = [&](const char* tag) { return number(bounds, tag, origin); };
  // Pixels are counted from 1, and the last one belongs to the object.
  return {.label = classes.label_of(text_in(only(object, "name", origin)), origin),
          .corners = {side_of("xmin") - 1, side_of("ymin") - 1, side_of("xmax"), side_of("ymax")},
          .uncounted = text_in(object.child("difficult")) == "1" ? Uncounted::difficult : Uncounted::no};
}

std::vector<BoxedImage> read_voc(const FileTree& tree, const std::vector<std::int64_t>& annotations, SplitName side,
                                 BoxClasses& classes) {
  const ImageNames files(tree);
  std::vector<BoxedImage> made;
  for (const std::int64_t file : annotations) {
    const std::string origin = tree.origin(file), text = tree.read_text(file);
    pugi::xml_document xml;
    if (const pugi::xml_parse_result parsed = xml.load_buffer(text.data(), text.size()); !parsed)
      reject("{}: expected XML: {} at byte {}", origin, parsed.description(), parsed.offset);
    const pugi::xml_node root = only(xml, "annotation", origin);
    const std::string_view path = tree.path(file), name = path.substr(path.rfind('/') + 1);
    BoxedImage& image =
        made.emplace_back(BoxedImage{.file = files.find(name.substr(0, name.size() - 4), side, origin)});
    if (root.child("size")) {
      const pugi::xml_node size = only(root, "size", origin);
      image.width = static_cast<std::int64_t>(number(size, "width", origin));
      image.height = static_cast<std::int64_t>(number(size, "height", origin));
      const bool is_known = image.width > 0 && image.height > 0;
      if (!is_known && (image.width != 0 || image.height != 0))
        reject("{}: expected a size of 1 x 1 pixels at least, or 0 x 0 where it is unknown, got {} x {}", origin,
               image.width, image.height);
    }
    for (const pugi::xml_node& object : root.children("object"))
      image.boxes.push_back(read_object(object, classes, origin));
  }
  return made;
}

}  // namespace

const BoxFormat voc_format{.name = "VOC", .find = find_voc, .read = read_voc};

}  // namespace lacuna
