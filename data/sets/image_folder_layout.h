// The layout of images in a tree of files: splits and folders of classes, as for torchvision's ImageFolder and
// ImageNet.
#pragma once

#include "data/sets/image_split.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Whether a name ends as those of images do, in upper or lower case (torchvision's IMG_EXTENSIONS).
bool is_image_name(std::string_view name);

struct ImageFolderOptions {
  std::filesystem::path path{};        // a folder or a tar archive
  std::filesystem::path validation{};  // another one with the images to evaluate on; empty: found in `path`
  std::filesystem::path
      val_labels{};           // file with the classes of validation images that lie in no folders; empty: found
  std::string labels{};       // see class_names; empty: the folders' names
  double val_fraction = 0.1;  // of each class, held out where there are no validation images
  std::uint64_t seed = 1;     // decides which
};

struct ImageFolderLayout {
  std::vector<std::string> classes;  // by label
  ImageSplit train, validation;
  std::string description;
};

/// Finds the images. `train` (or `training`) holds a folder for each class, and so does `val`, `valid`, `validation`,
/// `eval`, `evaluation` or `test`; without these the folder itself holds the classes. Labels follow the bytes of the
/// classes' names. Images in further folders below belong to the class. Validation images in one folder get their
/// classes from a file beside them, as those of ImageNet do. Rejects what has no images, fewer than two classes, a
/// class without images, and splits with different classes.
ImageFolderLayout find_images(const ImageFolderOptions& options);

/// Which samples are held out for evaluation: a part of each class, drawn by the seed; one image at least, and never
/// all.
std::vector<bool> held_out(const std::vector<std::int32_t>& labels, double fraction, std::uint64_t seed);

}  // namespace lacuna
