// The images of one split in a tree of files, and their data set.
#pragma once

#include "data/dataset.h"
#include "data/files/file_tree.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace lacuna {

struct ImageSplit {
  std::shared_ptr<const FileTree> tree;
  std::vector<std::int32_t> files;   // [images]: indices in the tree
  std::vector<std::int32_t> labels;  // [images]
};

/// The data set of `info.size` images of `split`. A subset is drawn at random by `seed`, because files are sorted by
/// class.
std::unique_ptr<const Dataset> open_split(DatasetInfo info, std::shared_ptr<const ImageSplit> split,
                                          std::uint64_t seed);

}  // namespace lacuna
