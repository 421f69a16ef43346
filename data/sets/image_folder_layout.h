// The layout of images in a tree of files: splits and class folders, as in torchvision's ImageFolder and ImageNet.
#pragma once

#include "data/hold_out.h"
#include "data/opened_files.h"
#include "data/sets/image_split.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The end of a description of pictures that are trained on and evaluated alike.
inline constexpr std::string_view no_others_to_train_on =
    ": there are no others to train on, so that both are the same";

/// The files at `path`, listed once.
std::shared_ptr<const FileTree> tree_at(const std::filesystem::path& path, OpenedFiles& files);

/// Whether the names tell that `train` holds two classes of pictures at least, each in a folder on the disk.
bool has_class_folders(const std::filesystem::path& path, OpenedFiles& files);

struct ImageFolderOptions {
  std::filesystem::path path{};        // a folder or a tar archive
  std::filesystem::path validation{};  // folder or archive of the validation images; empty: found in `path`
  std::filesystem::path val_labels{};  // file with the classes of validation images without class folders; empty: found
  std::string labels{};                // see class_names; empty: the folders' names
  HoldOutOptions hold_out{};           // of each class, if there are no validation images
  std::shared_ptr<OpenedFiles> files = std::make_shared<OpenedFiles>();
};

struct ImageFolderLayout {
  std::vector<std::string> classes;  // by label
  ImageSplit train, validation;
  std::shared_ptr<const HeldOut> held_out;  // null if there are validation images
  std::string description;
};

/// Finds the images. `train` (or `training`) and `val`, `valid`, `validation`, `eval`, `evaluation` or `test` hold one
/// folder per class; without these split folders, the folder itself holds the class folders. Labels number the classes
/// sorted by the bytes of their names. Images in nested folders belong to the class. Validation images in a single
/// folder get their classes from a file beside them, as in ImageNet; without one, those in `test` are left out. Names
/// that differ in their Unicode form alone are one class. Files that are no pictures are counted. Rejects a folder
/// without images, fewer than two classes, a class without images, splits with different classes, classes beside
/// `train`, and pictures of formats that are not read.
ImageFolderLayout find_images(const ImageFolderOptions& options);

}  // namespace lacuna
