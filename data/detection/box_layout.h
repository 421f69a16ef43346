// The layouts of images with boxes in a tree of files: COCO, YOLO and VOC.
#pragma once

#include "data/detection/boxes.h"
#include "data/files/split_names.h"
#include "data/hold_out.h"
#include "data/opened_files.h"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Names of classes by label. A name that is not there is added, unless the names are those that were asked for.
class BoxClasses {
 public:
  explicit BoxClasses(std::vector<std::string> names);
  std::int64_t label_of(const std::string& name, const std::string& place);
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::int64_t> labels_;
  bool are_given_;
};

/// The split that the last part of a path with a word for one tells: `train2017/`, `val`, `instances_val2017.json`. A
/// part with words for two, as `train_val`, tells none.
SplitName side_of_path(std::string_view path);
/// A path's folder, with `/` at the end; empty without one.
std::string_view folder_of(std::string_view path);

/// A tree's images, by the ends of their paths.
class ImageNames {
 public:
  explicit ImageNames(const FileTree& tree);
  /// The file whose path ends with `name`; of several the one of `side`. Rejects none and several, naming `place`.
  std::int64_t find(std::string_view name, SplitName side, const std::string& place) const;

 private:
  const FileTree& tree_;
  std::multimap<std::string, std::int64_t, std::less<>> by_name_;
};

/// A split of files in a format, from the files of annotations that it takes.
using FindAnnotations = std::map<SplitName, std::vector<std::int64_t>> (*)(const FileTree& tree);
using ReadBoxes = std::vector<BoxedImage> (*)(const FileTree& tree, const std::vector<std::int64_t>& annotations,
                                              SplitName side, BoxClasses& classes);
struct BoxFormat {
  std::string_view name;
  FindAnnotations find;  // by split, which `none` leaves open; empty: not of this format
  ReadBoxes read;
  bool in_fractions = false;
  /// Names of the classes that files beside the annotations tell; null: the annotations themselves do.
  std::vector<std::string> (*classes)(const FileTree& tree) = nullptr;
};
extern const BoxFormat coco_format, yolo_format, voc_format;

struct BoxLayout {
  BoxedImages train, validation;
  std::vector<std::string> classes;
  std::shared_ptr<const HeldOut> held_out;  // null if there are images for evaluation
  std::string description;
};
/// Rejects a folder without annotations, annotations of a side of which there are several files, images that are
/// missing, classes of the evaluation that training has not, and boxes of which none is left.
BoxLayout find_boxes(std::shared_ptr<const FileTree> tree, const std::string& path,
                     const std::vector<std::string>& classes, const HoldOutOptions& hold_out);
/// Whether the files' names are those of one of the formats: of VOC, whose XML may be anything, with a folder
/// `Annotations` and without masks.
bool has_boxes(const FileTree& tree);

}  // namespace lacuna
