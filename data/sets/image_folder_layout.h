// The layout of images in a tree of files: splits and class folders, as in torchvision's ImageFolder and ImageNet.
#pragma once

#include "data/opened_files.h"
#include "data/sets/image_split.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The files at `path`, listed once.
std::shared_ptr<const FileTree> tree_at(const std::filesystem::path& path, OpenedFiles& files);

/// Whether a name has an image extension, in upper or lower case (torchvision's IMG_EXTENSIONS).
bool is_image_name(std::string_view name);

struct ImageFolderOptions {
  std::filesystem::path path{};        // a folder or a tar archive
  std::filesystem::path validation{};  // folder or archive of the validation images; empty: found in `path`
  std::filesystem::path val_labels{};  // file with the classes of validation images without class folders; empty: found
  std::string labels{};                // see class_names; empty: the folders' names
  double val_fraction = 0.1;           // share of each class that is held out if there are no validation images
  std::uint64_t seed = 1;              // seed of the held-out selection
  std::shared_ptr<OpenedFiles> files = std::make_shared<OpenedFiles>();
};

struct ImageFolderLayout {
  std::vector<std::string> classes;  // by label
  ImageSplit train, validation;
  std::string description;
};

/// Finds the images. `train` (or `training`) and `val`, `valid`, `validation`, `eval`, `evaluation` or `test` hold one
/// folder per class; without these split folders, the folder itself holds the class folders. Labels number the classes
/// sorted by the bytes of their names. Images in nested folders belong to the class. Validation images in a single
/// folder get their classes from a file beside them, as in ImageNet. Rejects a folder without images, fewer than two
/// classes, a class without images, and splits with different classes.
ImageFolderLayout find_images(const ImageFolderOptions& options);

/// The fraction of each class that is held out for validation: the default and the limits.
inline constexpr double usual_fraction = 0.1;
inline constexpr NumberRange val_fractions = between(0.001, 0.9);

/// Marks the samples held out for validation: a random share of each class, at least one sample, and never all.
std::vector<bool> held_out(const std::vector<std::int32_t>& labels, double fraction, std::uint64_t seed);

}  // namespace lacuna
