// Boxes that a detector finds in images: in their own pixels, and drawn.
#pragma once

#include "apps/commands/opened_model.h"
#include "apps/output/picture.h"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <set>
#include <string>
#include <utility>

namespace lacuna::apps {

struct FoundBoxesOptions {
  std::filesystem::path folder{};  // for pictures with the boxes; empty: none are written
  double least_score = 0.5;
  std::vector<std::string> inputs{};  // files and folders that are not written over
};

class FoundBoxes {
 public:
  /// Makes the folder.
  FoundBoxes(const OpenedModel& model, FoundBoxesOptions options);

  /// Finds the objects of an image file: their labels, scores and boxes in its own pixels, and `overlay`, the path of
  /// the picture that is written; as JSON and as text.
  std::pair<nlohmann::ordered_json, std::string> predict(const std::string& name, const std::string& bytes);

 private:
  const OpenedModel& model_;
  std::unique_ptr<Task> task_;
  FoundBoxesOptions options_;
  TransformOptions images_;
  std::set<std::filesystem::path> written_;
};

/// Adds `mask` and `prediction` to a sample of figures: pictures of its image with its true boxes and with
/// those that are found. `batch` has this sample alone.
void add_boxes(nlohmann::ordered_json& sample, Model& model, const Task& task, const Batch& batch,
               const std::vector<std::string>& classes, const Reduced& picture);

}  // namespace lacuna::apps
