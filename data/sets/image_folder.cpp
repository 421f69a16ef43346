// The data set of images in class folders, on disk or in a tar archive.
#include "data/encoded_images.h"
#include "data/sets/image_folder_layout.h"

#include "core/error.h"
#include "core/text.h"
#include "data/files/picture_names.h"
#include "data/images/image_reader.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace lacuna {
namespace {

struct ImageFolderKeys {
  std::string validation;
  double val_fraction = usual_fraction;
  std::string val_labels, labels;

  static Fields fields() {
    using O = ImageFolderKeys;
    return {
        field("validation", &O::validation, is_path,
              "folder or archive to evaluate on; empty: `val`, `test` or the like in data.path"),
        field(
            "val_fraction", &O::val_fraction, val_fractions,
            "fraction of each class held out for evaluation, by the names and data.seed, if there is no folder for it"),
        field("val_labels", &O::val_labels, is_path,
              "file with names and classes of validation images that lie in one folder, as ImageNet's "
              "LOC_val_solution.csv; empty: detected beside them"),
        field("labels", &O::labels, PathKind::if_text_file,
              "names of the classes in their order, as `cat, dog`, or a file `.txt` with one per line; empty: the "
              "folders")};
  }
};

ImageFolderOptions layout_options(const DatasetOptions& options) {
  const auto own = read_options<ImageFolderKeys>("data set imagefolder", options.settings);
  return {.path = options.path,
          .validation = own.validation,
          .val_labels = own.val_labels,
          .labels = own.labels,
          .hold_out = hold_out_of(options, own.val_fraction),
          .files = options.files};
}

std::shared_ptr<const ImageFolderLayout> layout_of(const DatasetOptions& options) {
  const ImageFolderOptions wanted = layout_options(options);
  if (wanted.path.empty())
    reject("data.path: expected a folder with a folder of images for each class, or a tar of it");
  return options.files->get<ImageFolderLayout>(
      name_of_files(options), [&] { return std::make_shared<const ImageFolderLayout>(find_images(wanted)); });
}

DatasetInfo info_of(const DatasetOptions& options) {
  if (options.path.empty()) {  // ImageNet-1k's size, which suffices for planning
    layout_options(options);
    DatasetInfo info =
        encoded_images_info("imagefolder", options,
                            std::max<std::int64_t>(options.size(), options.split == Split::train ? 1'281'167 : 50'000));
    info.fields = encoded_image_fields(class_field(1000));
    return info;
  }
  const auto layout = layout_of(options);
  const ImageSplit& split = options.split == Split::train ? layout->train : layout->validation;
  DatasetInfo info = encoded_images_info("imagefolder", options, std::ssize(split.files));
  info.classes = layout->classes;
  info.held_out = layout->held_out;
  info.fields = encoded_image_fields(class_field(std::ssize(layout->classes)));
  info.description = options.split == Split::train ? layout->description : "";
  return info;
}

std::unique_ptr<const Dataset> open(const DatasetOptions& options) {
  const std::shared_ptr<const ImageFolderLayout> layout = layout_of(options);
  const ImageSplit& split = options.split == Split::train ? layout->train : layout->validation;
  return open_split(info_of(options), {layout, &split}, options.seed);
}

/// Recognises images in folders, or any archive; errors in an archive are reported when it is opened.
Recognition recognize(const std::filesystem::path& path, OpenedFiles& files) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    const std::string name = lower_case(path.filename().native());
    return {.certainty = name.find(".tar") != std::string::npos || name.ends_with(".tgz") ? 1 : 0};
  }
  if (has_class_folders(path, files)) return {.certainty = 2};
  const auto tree = tree_at(path, files);
  std::int64_t unnamed = 0;  // files whose names do not tell what they are
  for (std::int64_t file = 0; file < tree->size(); ++file) {
    const std::string_view name = tree->path(file);
    if (name.find('/') == std::string_view::npos) continue;
    if (is_image_name(name)) return {.certainty = 1};
    constexpr std::int64_t most_read = 100;
    if (has_no_kind(name) && ++unnamed <= most_read) {
      std::array<std::uint8_t, 32> bytes{};
      if (image_format(tree->read_begin(file, bytes)).is_read) return {.certainty = 1};
    }
  }
  return {};
}

const RegisterDataset image_folder(
    "imagefolder", {.describe = info_of, .open = open, .options = ImageFolderKeys{}, .recognize = recognize});

}  // namespace
}  // namespace lacuna
