// Masks that a segmentation model predicts for images: files of classes, and overlays.
#pragma once

#include "apps/commands/opened_model.h"
#include "apps/output/picture.h"
#include "models/segmentation/class_map.h"

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lacuna::apps {

/// The way to show a whole image at once that `crop_mode` has: resized to both sides with `squash`, else padded.
Showing whole_showing(const std::string& crop_mode);

struct ClassMaskOptions {
  std::filesystem::path folder{};  // for the files; empty: none are written
  bool overlays = false;
  bool add_one = false;               // class 0 has the value 1
  std::optional<Showing> showing{};   // nothing: as evaluations show images
  std::int64_t most = 0;              // classes that are named; 0: all
  std::vector<std::string> inputs{};  // files and folders that are not written over
};

/// The class of each pixel of an image file in its own size, [H, W] as u8, or i32 for more than 256 classes. `showing`:
/// nothing: as evaluations show images.
Tensor classes_of(Model& model, const TransformOptions& images, const std::string& bytes,
                  std::optional<Showing> showing = {});

class ClassMasks {
 public:
  /// Makes the folder.
  ClassMasks(const OpenedModel& model, ClassMaskOptions options);

  /// Predicts the class of each pixel of an image file, in its own size, and writes its mask. Returns the paths `mask`
  /// and `overlay`, and the `most` largest `classes` with their shares of the `pixels`, the largest first.
  nlohmann::ordered_json predict(const std::string& name, const std::string& bytes);

 private:
  /// A path in the folder that no other image has.
  std::filesystem::path path_of(const std::string& name, std::string_view ending);

  const OpenedModel& model_;
  ClassMaskOptions options_;
  TransformOptions images_;
  std::set<std::filesystem::path> written_;
};

/// As `road 0.4120, sky 0.3000; masks/a.png`, with `most` classes.
std::string shares_in_words(const nlohmann::ordered_json& found, std::int64_t most);

/// Adds `mask` and `prediction` to a sample of figures: pictures of its image under the labels of its
/// pixels and under those that the model predicts. `batch` has this sample alone.
void add_masks(nlohmann::ordered_json& sample, Model& model, const Batch& batch, const SampleField& mask,
               const std::vector<std::string>& classes, const Reduced& picture);

}  // namespace lacuna::apps
