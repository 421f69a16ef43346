// The data set of images and masks in folders, on disk or in a tar archive: the layouts of ADE20K, VOC, Cityscapes and
// others.
#include "core/error.h"
#include "data/class_names.h"
#include "data/encoded_images.h"
#include "data/labels.h"
#include "data/segmentation/mask_check.h"
#include "data/segmentation/mask_layout.h"
#include "data/segmentation/mask_values.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace lacuna {
namespace {

struct MaskFolderOptions {
  std::string validation;
  double val_fraction = usual_fraction;
  std::string labels, list;
  MaskValueOptions values{};
  MaskSize mask_size = MaskSize::same;

  static Fields fields() {
    using O = MaskFolderOptions;
    return Fields{field("validation", &O::validation, is_path,
                        "folder or archive to evaluate on; empty: `val`, `test` or the like in data.path"),
                  field("val_fraction", &O::val_fraction, val_fractions,
                        "fraction of the images held out for evaluation, by the names and data.seed, if there is no "
                        "folder for it"),
                  field("labels", &O::labels, PathKind::if_text_file,
                        "names of the classes in the order of their labels, as `road, car`, or a file `.txt` with one "
                        "per line; empty: those of the layout, or of `classes.txt`"),
                  field("list", &O::list,
                        "VOC: the list of ImageSets/Segmentation to train on, as `trainaug`; empty: "
                        "`train`")} +
           rows_of(&O::values) +
           Fields{field("mask_size", &O::mask_size,
                        "masks of another size than their images: `same` refuses them, `resize` takes the nearest "
                        "pixels")};
  }
};

/// A layout with all that reading its masks needs.
struct Opened {
  MaskLayout layout;
  MaskReading reading;
  std::vector<std::string> classes;  // names; empty: numbers
  std::string description;
};

/// Renumbers the labels where `names` are the classes of the layout in another order.
void reorder(const std::vector<std::string>& names, const std::vector<std::string>& own, MaskLabels& labels) {
  if (own.empty() || names.size() < own.size()) return;
  const ClassIndex index(names);
  std::vector<std::int64_t> numbers;
  for (const std::string& name : own) {
    const auto found = index.find(name);
    if (!found) return;  // other names
    numbers.push_back(*found);
  }
  labels.renumber(numbers);
}

std::shared_ptr<const Opened> open_files(const DatasetOptions& options, const MaskFolderOptions& own) {
  MaskLayout layout = find_masks({.path = options.path,
                                  .validation = own.validation,
                                  .list = own.list,
                                  .hold_out = hold_out_of(options, own.val_fraction),
                                  .files = options.files});
  const bool zero_is_ignored = own.values.zero_label == ZeroLabel::ignored ||
                               (own.values.zero_label == ZeroLabel::automatic && layout.kind.zero_is_ignored);
  const MaskColors colors(own.values.colors);
  const std::vector<std::string>& of_files = colors.names().empty() ? layout.kind.classes : colors.names();
  const std::vector<std::string> given = class_names(own.labels);
  std::vector<std::string> classes = given.empty() ? of_files : given;
  const auto labels_of = [&](std::int64_t count) {
    MaskLabels labels(own.values, layout.kind.labels, zero_is_ignored, count);
    reorder(given, of_files, labels);
    return labels;
  };
  std::int64_t count = options.classes > 0 ? options.classes : std::ssize(classes);
  if (count == 0) count = colors.size();
  if (count == 1) reject("data.labels: expected two classes at least, got one");
  if (!classes.empty() && count != std::ssize(classes))
    reject("data.classes is {}, but {} have names: {}", count, classes.size(), some_names(classes));
  MaskReading reading{.labels = labels_of(count), .colors = colors, .classes = count, .size = own.mask_size};
  constexpr std::int64_t checked = 50, counted = 1000;
  const bool counts = count == 0;
  MaskSurvey found = survey(reading, layout.train, counts ? counted : checked, true);
  if (counts) reading.classes = std::ssize(found.pixels);
  if (counts && reading.classes > ignored_pixel) {  // so that 255 is a class, which was not counted
    reading.labels = labels_of(reading.classes);
    found = survey(reading, layout.train, counted, true);
  }
  if (reading.classes < 2)
    reject("{}: expected two classes at least, got one: all pixels of the masks are 0 or ignored ({})",
           options.path.native(), reading.labels.description());
  survey(reading, layout.validation, checked, false);
  std::string description = fmt::format(
      "{}; {} classes{}; {}{}", layout.description, reading.classes,
      counts ? fmt::format(" as the largest of {} masks' labels says (data.labels names them)", found.masks) : "",
      reading.labels.description().empty() ? "" : reading.labels.description() + "; ", describe(found, classes));
  return std::make_shared<const Opened>(
      Opened{std::move(layout), std::move(reading), std::move(classes), std::move(description)});
}

std::shared_ptr<const Opened> opened(const DatasetOptions& options) {
  const auto own = read_options<MaskFolderOptions>("data set mask_folder", options.settings);
  if (options.path.empty()) reject("data.path: expected a folder with images and masks, or a tar of it");
  return options.files->get<Opened>(name_of_files(options), [&] { return open_files(options, own); });
}

const MaskSplit& split_of(const Opened& files, Split split) {
  return split == Split::train ? files.layout.train : files.layout.validation;
}

DatasetInfo info_of(const DatasetOptions& options) {
  if (options.path.empty()) {  // ADE20K's size, which suffices for planning
    constexpr std::int64_t ade_classes = 150, ade_training = 20'210, ade_validation = 2'000;
    DatasetInfo info =
        encoded_images_info("mask_folder", options,
                            std::max(options.size(), options.split == Split::train ? ade_training : ade_validation));
    info.classes = class_names(read_options<MaskFolderOptions>("data set mask_folder", options.settings).labels);
    const std::int64_t classes = options.classes > 0 ? options.classes : std::ssize(info.classes);
    info.fields = encoded_image_fields(mask_field(classes > 0 ? classes : ade_classes, 0, 0));
    return info;
  }
  const auto files = opened(options);
  DatasetInfo info = encoded_images_info("mask_folder", options, std::ssize(split_of(*files, options.split).pairs));
  info.classes = files->classes;
  info.held_out = files->layout.held_out;
  info.fields = encoded_image_fields(mask_field(files->reading.classes, 0, 0));
  info.description = options.split == Split::train ? files->description : "";
  return info;
}

class MaskFolder final : public EncodedImages {
 public:
  explicit MaskFolder(const DatasetOptions& options)
      : EncodedImages(info_of(options), std::ssize(split_of(*opened(options), options.split).pairs), options.seed),
        files_(opened(options)),
        split_(split_of(*files_, options.split)) {}
  std::string origin(std::int64_t index) const override { return split_.tree->origin(pair_of(index).image); }

 private:
  const MaskPair& pair_of(std::int64_t index) const { return split_.pairs[place_of(index)]; }

  void read_file(std::int64_t index, Sample& sample) const override {
    const MaskPair& pair = pair_of(index);
    const std::span<const std::uint8_t> image = read_image(*split_.tree, pair.image, sample);
    Tensor file;
    split_.tree->read(pair.mask, [&](std::int64_t count) {
      file = sample.scratch({count}, DType::u8);
      return std::span(file.data<std::uint8_t>(), static_cast<std::size_t>(count));
    });
    const std::string name = find_field(info().fields, FieldKind::mask)->name;
    try {
      sample.set(name, read_mask(files_->reading, image,
                                 {file.data<const std::uint8_t>(), static_cast<std::size_t>(file.count())},
                                 [&](const Shape& shape, DType dtype) { return sample.make(name, shape, dtype); }));
    } catch (const DamagedSample& error) {
      reject_sample("the mask {}: {}", split_.tree->origin(pair.mask), error.what());
    }
  }

  std::shared_ptr<const Opened> files_;
  const MaskSplit& split_;
};

const RegisterDataset mask_folder("mask_folder",
                                  {.describe = info_of,
                                   .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                                     return std::make_unique<MaskFolder>(options);
                                   },
                                   .options = MaskFolderOptions{},
                                   .recognize =
                                       [](const std::filesystem::path& path, OpenedFiles& files) {
                                         std::error_code ignored;
                                         if (!std::filesystem::is_directory(path, ignored)) return Recognition{};
                                         return Recognition{.certainty = has_masks(path, files) ? 3 : 0};
                                       }});

}  // namespace
}  // namespace lacuna
