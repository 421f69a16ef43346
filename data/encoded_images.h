// Data sets of image files. A sample is the undecoded file; a transform decodes only the region it needs.
#pragma once

#include "data/dataset.h"
#include "data/files/file_tree.h"
#include "data/permutation.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {

/// Fields of a data set of image files: an image file u8 [bytes], whose length varies, and a label.
SampleFields encoded_image_fields(SampleField label = class_field());

/// Channels of the samples' images; 3 (RGB) for image files, 0 if samples have no images.
std::int64_t image_channels(const SampleFields& fields);

/// The largest of a data set's image files, the most bytes that a decoder holds of one beyond a few rows, and the
/// longest side of all in pixels.
struct DecoderNeed {
  std::int64_t file = 0, held = 0, side = 0;
};
/// As the headers tell: of all files, or of `most` of them at equal distances. Damaged ones count nothing.
DecoderNeed decoder_need(const Dataset& dataset, bool apply_exif, std::int64_t most = 4096);

/// The description of a split of image files that holds `held` images: its size, ImageNet's mean and deviation.
/// Rejects options that ask for more images.
DatasetInfo encoded_images_info(std::string name, const DatasetOptions& options, std::int64_t held);
/// The key of these options in OpenedFiles: equal keys read equal files.
std::string name_of_files(const DatasetOptions& options);
/// How samples are held out for evaluation.
HoldOutOptions hold_out_of(const DatasetOptions& options, double fraction);

/// Moves the samples that are held out from `train` to `validation`. `paths`: of the samples, which have no classes.
template <class T>
std::shared_ptr<const HeldOut> hold_some_out(const std::vector<std::string>& paths, const HoldOutOptions& options,
                                             std::vector<T>& train, std::vector<T>& validation) {
  const std::vector<bool> held = held_out(paths, paths, std::vector<std::int32_t>(paths.size()), options);
  auto sides = std::make_shared<HeldOut>();
  std::vector<T> kept;
  for (std::size_t i = 0; i < held.size(); ++i) {
    (held[i] ? validation : kept).push_back(std::move(train[i]));
    if (held[i]) sides->names.push_back(paths[i]);
  }
  train = std::move(kept);
  sides->trained_on = std::ssize(train);
  return sides;
}

/// A data set of image files; `info().fields` are encoded_image_fields(). Format and size of an image are unknown until
/// its file is read.
class EncodedImages : public Dataset {
 public:
  using Dataset::Dataset;
  /// Some of the `held` images of a split, drawn by `seed`, since files may be sorted by class.
  EncodedImages(DatasetInfo info, std::int64_t held, std::uint64_t seed);
  /// The file of sample `index`, or its archive and the name in it, for messages and lists. Thread-safe.
  virtual std::string origin(std::int64_t index) const = 0;

 protected:
  /// The place of sample `index` among the images of the split.
  std::size_t place_of(std::int64_t index) const { return static_cast<std::size_t>(part_ ? (*part_)(index) : index); }
  /// Reads a file as the sample's image, u8 [bytes].
  std::span<const std::uint8_t> read_image(const FileTree& tree, std::int64_t file, Sample& sample) const;

 private:
  /// Sets the image file, in memory from `sample.make(name, {bytes}, DType::u8)`, and the label. An unreadable file is
  /// the input's fault, and becomes a DamagedSample. Thread-safe.
  virtual void read_file(std::int64_t index, Sample& sample) const = 0;

  void read_sample(std::int64_t index, Sample& sample) const final;

  std::optional<Permutation> part_;
};

}  // namespace lacuna
