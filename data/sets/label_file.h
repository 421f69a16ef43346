// Files that tell the classes of images which lie in one folder.
#pragma once

#include "data/sets/image_split.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna {

/// A file that lists images with their classes, as ImageNet's LOC_val_solution.csv, Tiny ImageNet's val_annotations.txt
/// and Caffe's val.txt do, or the classes alone in the order of the images' names.
class LabelFile {
 public:
  LabelFile(std::string name, const std::string& text);

  /// The label of each of `files` in `tree`. A class is one of `classes`, or, as a whole field, its number.
  std::vector<std::int32_t> labels(const FileTree& tree, const std::vector<std::int32_t>& files,
                                   const std::vector<std::string>& classes) const;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::vector<std::string> lines_;
  char separator_;  // ' ': blanks
};

}  // namespace lacuna
