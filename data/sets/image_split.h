// Images of one split that lie in a tree of files, and the data set of them.
#pragma once

#include "data/dataset.h"
#include "data/files/file_tree.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace lacuna {

struct ImageSplit {
  std::shared_ptr<const FileTree> tree;
  std::vector<std::int32_t> files;   // [images], by number in the tree
  std::vector<std::int32_t> labels;  // [images]
};

/// The data set of `info.size` images of `split`. Files come class by class: fewer than all are drawn by `seed`.
std::unique_ptr<const Dataset> open_split(DatasetInfo info, std::shared_ptr<const ImageSplit> split,
                                          std::uint64_t seed);

}  // namespace lacuna
