// CIFAR-10 and CIFAR-100 in their original binary format (Krizhevsky 2009; cs.toronto.edu/~kriz/cifar.html).
#pragma once

#include "data/dataset.h"
#include "data/sets/record_file.h"

#include <string>
#include <vector>

namespace lacuna {

/// The file format: records of `label_bytes` one-byte labels, the last of which is the class, and 32×32 planar pixels.
struct CifarFormat {
  static constexpr std::int64_t side = 32, channels = 3;  // pixels u8 [channels, side, side]

  std::string name, title;
  std::string archive_folder;              // top folder of the published archive
  std::string pickle_folder, pickle_file;  // top folder of the Python pickle archive, and a file in it
  std::vector<std::string> train_files, validation_files;
  std::int64_t train_images = 0, validation_images = 0;  // as published
  std::int64_t label_bytes = 1;
  std::vector<std::string> classes;
  std::vector<float> mean, deviation;  // [channels], over the published training images

  std::int64_t record_bytes() const { return label_bytes + channels * side * side; }
};

const CifarFormat& cifar10_format();
const CifarFormat& cifar100_format();

class Cifar final : public ImageDataset {
 public:
  /// Opens the files of `options.split` in `options.path` (or in the archive's folder there) and checks the length of
  /// each file and every label. All published images must be present unless fewer are requested. Images are read from
  /// the files on demand.
  Cifar(const CifarFormat& format, const DatasetOptions& options);

  std::int64_t read_image(std::int64_t index, std::uint8_t* image) const override;
  std::int64_t label(std::int64_t index) const override { return labels_[static_cast<std::size_t>(index)]; }

 private:
  std::int64_t label_of(const RecordFile& file, std::int64_t record, const std::uint8_t* bytes) const;
  void read_labels(const RecordFile& file);

  const CifarFormat& format_;
  std::vector<RecordFile> files_;
  std::vector<std::uint8_t> labels_;  // [images]
};

}  // namespace lacuna
