// Data sets of image files. A sample is a file as it lies; a transform decodes the part of it that it needs.
#pragma once

#include "data/dataset.h"

#include <cstdint>
#include <string>

namespace lacuna {

/// Fields of a data set of image files: `encoded` u8 [bytes], whose length differs from file to file, and `labels` as
/// the data set has them: i64 [] unless given.
SampleFields encoded_image_fields(SampleField labels = {.name = "labels", .dtype = DType::i64, .shape = {}});

/// Channels of the samples' images, which are RGB where they are files; 0: they have none.
std::int64_t image_channels(const SampleFields& fields);

/// A data set of image files: its `info().fields` are encoded_image_fields(). Format and size of an image are known
/// once its file is read.
class EncodedImages : public Dataset {
 public:
  using Dataset::Dataset;
  /// The file of sample `index`, or its archive and the name there, for messages and lists. Any thread may call it.
  virtual std::string origin(std::int64_t index) const = 0;

 private:
  /// Sets `encoded`, in memory of `sample.make("encoded", {bytes}, DType::u8)`, and `labels`. A file that cannot be
  /// read is the input's fault; the message names it. Several threads may read at once.
  virtual void read_file(std::int64_t index, Sample& sample) const = 0;

  void read_sample(std::int64_t index, Sample& sample) const final;
};

}  // namespace lacuna
