// The layout of images and their masks in a tree of files.
#pragma once

#include "data/files/file_tree.h"
#include "data/hold_out.h"
#include "data/opened_files.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {

/// Files of a tree.
struct MaskPair {
  std::int32_t image = 0, mask = 0;
};

struct MaskSplit {
  std::shared_ptr<const FileTree> tree;
  std::vector<MaskPair> pairs{};
};

/// The values that a known data set's masks hold.
struct MaskKind {
  std::string name{};                             // for people
  std::vector<std::string> classes{};             // by label; empty: unknown
  std::map<std::int64_t, std::int64_t> labels{};  // of values; empty: values are labels
  bool zero_is_ignored = false;
};

struct MaskLayoutOptions {
  std::filesystem::path path{};        // a folder or a tar archive
  std::filesystem::path validation{};  // the same for evaluation; empty: found in `path`
  std::string list{};                  // of VOC: the list to train on; empty: `train`
  HoldOutOptions hold_out{};           // of the pairs, if there are none for evaluation
  std::shared_ptr<OpenedFiles> files = std::make_shared<OpenedFiles>();
};

struct MaskLayout {
  MaskKind kind;
  MaskSplit train, validation;
  std::shared_ptr<const HeldOut> held_out;  // null if there are pairs for evaluation
  std::string description;
};

/// Pairs images with masks. A folder `images` (`imgs`, `JPEGImages`, `leftImg8bit` or the like) stands beside a folder
/// `masks` (`labels`, `annotations`, `SegmentationClass`, `gtFine`); what lies above and below is the same for both, as
/// are the names without extension and without endings like `_mask`. Without such folders, names with an ending are
/// masks of those without. A folder `train` or `training`, and `val`, `validation` or `test`, names the split; VOC's
/// lists do, where there are some. Rejects a mask without an image, two masks of an image, and a list's name without
/// files; images without masks are left out.
MaskLayout find_masks(const MaskLayoutOptions& options);

/// Whether some images have masks, by the names.
bool has_masks(const std::filesystem::path& path, OpenedFiles& files);

}  // namespace lacuna
