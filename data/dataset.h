// Sets of labelled images, found by name. A new one only adds files: it registers itself (docs/data.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

enum class Split : std::uint8_t { train, validation };

/// What a configuration says about a dataset. Each dataset reads what concerns it.
struct DatasetOptions {
  std::filesystem::path path{};  // folder of the files; drawn datasets have none
  Split split = Split::train;
  std::uint64_t seed = 1;       // drawn datasets: which images
  std::int64_t train_size = 0;  // images: the first so many, 0: all; a drawn dataset draws so many, 0: its default
  std::int64_t validation_size = 0;
  std::int64_t image_size = 0;  // drawn datasets: side in pixels, 0: their own

  /// The images asked for of `split`.
  std::int64_t size() const { return split == Split::train ? train_size : validation_size; }
};

/// What is known before any image is read.
struct DatasetInfo {
  std::string name;
  std::int64_t size = 0;                             // images of the split
  std::vector<std::string> classes;                  // names, by label
  std::int64_t height = 0, width = 0, channels = 0;  // of every image
  std::vector<float> mean, deviation;                // [channels], of values scaled to [0, 1]; train split
};

class Dataset {
 public:
  explicit Dataset(DatasetInfo info) : info_(std::move(info)) {}
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  const DatasetInfo& info() const { return info_; }
  std::int64_t image_bytes() const { return info_.height * info_.width * info_.channels; }

  /// Number of images.
  std::int64_t size() const { return info_.size; }
  /// Writes image `index` to `image` (u8 [height, width, channels]) and returns its label. Any thread may call it.
  virtual std::int64_t read(std::int64_t index, std::uint8_t* image) const = 0;

 private:
  DatasetInfo info_;
};

/// A kind of dataset as it stands in the registry.
struct DatasetKind {
  std::string name;
  DatasetInfo (*describe)(const DatasetOptions& options);
  std::unique_ptr<const Dataset> (*open)(const DatasetOptions& options);
};

/// A static object of this type in the dataset's source file makes it known.
struct RegisterDataset {
  explicit RegisterDataset(DatasetKind kind);
};

/// All kinds, by name.
const std::vector<DatasetKind>& dataset_kinds();

/// Number and size of the images and classes of the dataset `name`. CIFAR and drawn datasets need no file for it. An
/// unknown name or an impossible option is the input's fault.
DatasetInfo describe_dataset(std::string_view name, const DatasetOptions& options);

/// Opens the dataset `name`. Missing, truncated or malformed files are the input's fault: one message says which.
std::unique_ptr<const Dataset> open_dataset(std::string_view name, const DatasetOptions& options);

}  // namespace lacuna
