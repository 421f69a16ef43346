// What a model says about image files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lacuna::apps {

struct ImagePredictionOptions {
  std::int64_t top = 5;  // classes that are named for each image
  bool json = false;     // a line of JSON for each image
};

/// Whether `from` is a run, a checkpoint or a folder with a model of images.
bool predicts_images(const std::string& from);

/// Prints a line for each image of the files, folders and tar archives in `paths`, prepared as in evaluation. The
/// training data need not be there. Images that cannot be read are named on standard error, and refused at the end.
void predict_images(const std::string& from, const std::vector<std::string>& paths,
                    const ImagePredictionOptions& options);

}  // namespace lacuna::apps
