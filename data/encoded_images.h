// Data sets of image files. A sample is the undecoded file; a transform decodes only the region it needs.
#pragma once

#include "data/dataset.h"

#include <cstdint>
#include <string>

namespace lacuna {

/// Fields of a data set of image files: an image file u8 [bytes], whose length varies, and a label.
SampleFields encoded_image_fields(SampleField label = class_field());

/// Channels of the samples' images; 3 (RGB) for image files, 0 if samples have no images.
std::int64_t image_channels(const SampleFields& fields);

/// The largest of a data set's image files, and the most bytes that a decoder holds of one beyond a few rows.
struct DecoderNeed {
  std::int64_t file = 0, held = 0;
};
/// As the headers tell: of all files, or of `most` of them at equal distances. Damaged ones count nothing.
DecoderNeed decoder_need(const Dataset& dataset, bool apply_exif, std::int64_t most = 4096);

/// A data set of image files; `info().fields` are encoded_image_fields(). Format and size of an image are unknown until
/// its file is read.
class EncodedImages : public Dataset {
 public:
  using Dataset::Dataset;
  /// The file of sample `index`, or its archive and the name in it, for messages and lists. Thread-safe.
  virtual std::string origin(std::int64_t index) const = 0;

 private:
  /// Sets the image file, in memory from `sample.make(name, {bytes}, DType::u8)`, and the label. An unreadable file is
  /// the input's fault, and becomes a DamagedSample. Thread-safe.
  virtual void read_file(std::int64_t index, Sample& sample) const = 0;

  void read_sample(std::int64_t index, Sample& sample) const final;
};

}  // namespace lacuna
