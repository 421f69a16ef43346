// The data set of images with boxes in files: COCO, YOLO or VOC.
#include "core/error.h"
#include "data/class_names.h"
#include "data/detection/box_layout.h"
#include "data/encoded_images.h"
#include "data/images/image_reader.h"
#include "data/sets/image_folder_layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace lacuna {
namespace {

struct BoxFolderOptions {
  double val_fraction = usual_fraction;
  std::string labels;

  static Fields fields() {
    using O = BoxFolderOptions;
    return {
        field(
            "val_fraction", &O::val_fraction, val_fractions,
            "fraction of the images held out for evaluation, by the names and data.seed, if there is no folder for it"),
        field("labels", &O::labels, PathKind::if_text_file,
              "names of the classes in the order of their labels, as `road, car`, or a file `.txt` with one "
              "per line; empty: those of the layout, or of `classes.txt`")};
  }
};

std::shared_ptr<const BoxLayout> boxes_in(const DatasetOptions& options) {
  const auto own = read_options<BoxFolderOptions>("data set box_folder", options.settings);
  if (options.path.empty()) reject("data.path: expected a folder with images and boxes, or a tar of it");
  return options.files->get<BoxLayout>(name_of_files(options), [&] {
    return std::make_shared<const BoxLayout>(find_boxes(tree_at(options.path, *options.files), options.path.string(),
                                                        class_names(own.labels),
                                                        hold_out_of(options, own.val_fraction)));
  });
}

const BoxedImages& split_of(const BoxLayout& layout, Split split) {
  return split == Split::train ? layout.train : layout.validation;
}

DatasetInfo describe_boxes(const DatasetOptions& options) {
  const auto layout = boxes_in(options);
  const std::vector<BoxedImage>& images = split_of(*layout, options.split).images;
  std::int64_t most = 1;
  for (const BoxedImage& image : images) most = std::max<std::int64_t>(most, std::ssize(image.boxes));
  if (options.split == Split::train &&
      std::ranges::all_of(images, [](const BoxedImage& image) { return image.boxes.empty(); }))
    reject("{}: none of the {} images to train on has a box: there is nothing to learn", options.path.native(),
           images.size());
  DatasetInfo info = encoded_images_info("box_folder", options, std::ssize(images));
  info.classes = layout->classes;
  info.description = options.split == Split::train ? layout->description : "";
  info.held_out = layout->held_out;
  info.fields = {encoded_image_fields().front()};
  for (SampleField& field : box_fields(std::ssize(info.classes), most)) info.fields.push_back(std::move(field));
  return info;
}

class BoxFolder final : public EncodedImages {
 public:
  explicit BoxFolder(const DatasetOptions& options)
      : EncodedImages(describe_boxes(options), std::ssize(split_of(*boxes_in(options), options.split).images),
                      options.seed),
        layout_(boxes_in(options)),
        images_(split_of(*layout_, options.split)) {}
  std::string origin(std::int64_t index) const override { return images_.tree->origin(image_of(index).file); }

 private:
  const BoxedImage& image_of(std::int64_t index) const { return images_.images[place_of(index)]; }

  void read_file(std::int64_t index, Sample& sample) const override {
    const BoxedImage& image = image_of(index);
    const auto reader = open_image(read_image(*images_.tree, image.file, sample));
    const std::int64_t height = reader->height(), width = reader->width();
    if (image.width > 0 && (image.width != width || image.height != height))
      reject_sample("the annotations say {} x {} pixels (width, height), the file has {} x {}{}", image.width,
                    image.height, width, height,
                    image.width == height && image.height == width
                        ? ": its boxes are of the image turned by its EXIF orientation; store it turned"
                        : "");
    std::vector<ObjectBox> boxes = image.boxes;
    for (ObjectBox& box : boxes)
      for (std::size_t i = 0; i < 4 && images_.in_fractions; ++i)
        box.corners[i] *= static_cast<double>(i % 2 == 0 ? width : height);
    clip(boxes, static_cast<double>(width), static_cast<double>(height));  // annotations may say no size
    set_boxes(boxes, sample);
  }

  std::shared_ptr<const BoxLayout> layout_;
  const BoxedImages& images_;
};

const RegisterDataset box_folder("box_folder",
                                 {.describe = describe_boxes,
                                  .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                                    return std::make_unique<BoxFolder>(options);
                                  },
                                  .options = BoxFolderOptions{},
                                  .recognize =
                                      [](const std::filesystem::path& path, OpenedFiles& files) {
                                        std::error_code ignored;
                                        const bool found = std::filesystem::is_directory(path, ignored) &&
                                                           has_boxes(*tree_at(path, files));
                                        return Recognition{.certainty = found ? 3 : 0};
                                      }});

}  // namespace
}  // namespace lacuna
