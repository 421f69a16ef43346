// Data sets: labelled samples by number, found by name. A new one only adds files: it registers itself (docs/data.md).
#pragma once

#include "core/registry.h"
#include "core/settings.h"
#include "data/sample.h"
#include "data/vocabulary.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

enum class Split : std::uint8_t { train, validation };

/// The configuration of a data set. Each data set reads the options that concern it.
struct DatasetOptions {
  std::filesystem::path path{};  // folder of the files; drawn data sets have none
  Split split = Split::train;
  std::uint64_t seed = 1;       // of drawn data sets
  std::int64_t train_size = 0;  // number of samples to use; 0: all of them, or a drawn data set's default
  std::int64_t validation_size = 0;
  std::int64_t image_size = 0;  // drawn data sets: side in pixels; 0: their own
  // Drawn texts: tokens per sample, taken in turn; number of token ids; number of classes. Empty or 0: the defaults.
  std::vector<std::int64_t> lengths{};
  std::int64_t vocabulary = 0;
  std::int64_t classes = 0;
  std::filesystem::path model{};  // folder of the model that is trained, which may hold a tokenizer; may be empty
  SettingValues settings{};       // those of the data set's kind

  /// The number of samples asked for of `split`.
  std::int64_t size() const { return split == Split::train ? train_size : validation_size; }
};

/// Known before any sample is read.
struct DatasetInfo {
  std::string name;
  std::int64_t size = 0;                   // samples of the split
  SampleFields fields{};                   // of each sample
  std::vector<std::string> classes{};      // names, by label; empty where labels are numbers
  std::vector<float> mean{}, deviation{};  // [channels] of images scaled to [0, 1], over the train split
  std::vector<std::string> metrics{};      // by which it is judged; empty: the task's own
  std::string description{};               // of the files that were found, for people; may be empty
  Vocabulary vocabulary{};                 // of texts
};

/// Fields of a labelled image data set: `images` u8 [height, width, channels] and `labels` i64 [].
SampleFields image_fields(std::int64_t height, std::int64_t width, std::int64_t channels);

class Dataset {
 public:
  explicit Dataset(DatasetInfo info) : info_(std::move(info)) {}
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  const DatasetInfo& info() const { return info_; }
  /// Number of samples.
  std::int64_t size() const { return info_.size; }

  /// Rows of the packed or padded tensors of sample `index`; 1 where there are none. Any thread may call it.
  virtual std::int64_t length(std::int64_t index) const;

  /// The class of sample `index`; by default the sample is read for it. Refused where samples have no class. Any thread
  /// may call it.
  virtual std::int64_t label(std::int64_t index) const;

  /// Sets the tensors of `sample`, which has begun, to those of sample `index`. Several threads may read at once.
  void read(std::int64_t index, Sample& sample) const;

 private:
  virtual void read_sample(std::int64_t index, Sample& sample) const = 0;

  DatasetInfo info_;
};

/// A data set of labelled u8 images, which are decoded where they are needed.
class ImageDataset : public Dataset {
 public:
  using Dataset::Dataset;
  std::int64_t image_bytes() const { return field_of(info().fields, "images").shape.count(); }
  /// Writes image `index` to `image` (u8 [height, width, channels]) and returns its label. Any thread may call it.
  virtual std::int64_t read_image(std::int64_t index, std::uint8_t* image) const = 0;

 private:
  void read_sample(std::int64_t index, Sample& sample) const final;
};

/// Makes samples of what a user gives: texts, say.
class InputReader {
 public:
  virtual ~InputReader() = default;
  /// The fields of a sample, without targets.
  virtual const SampleFields& fields() const = 0;
  /// Sets the tensors of `sample`. What cannot be read is the input's fault.
  virtual void read(std::string_view input, Sample& sample) const = 0;
  /// The same for two inputs that belong together; refused where there are no pairs.
  virtual void read_pair(std::string_view input, std::string_view pair, Sample& sample) const;
};

/// Whether files are those of a data set.
struct Recognition {
  int certainty = 0;         // 0: they are not; 1: by what they hold; 2: by their names
  SettingValues settings{};  // that follow from the files
};

/// A kind of data set in the registry.
struct DatasetKind {
  DatasetInfo (*describe)(const DatasetOptions& options);
  std::unique_ptr<const Dataset> (*open)(const DatasetOptions& options);
  bool reads_files = true;          // whether `DatasetOptions::path` means something to it
  std::vector<Setting> settings{};  // beside those that all data sets have
  /// How it reads single inputs, without its files; null: not at all.
  std::unique_ptr<const InputReader> (*inputs)(const DatasetOptions& options) = nullptr;
  /// Whether the files at a path, which exists, are of this kind; null: that is never found out.
  Recognition (*recognize)(const std::filesystem::path& path) = nullptr;
};
Registry<DatasetKind>& dataset_kinds();

/// A static object of this type in the data set's source file registers it.
struct RegisterDataset {
  RegisterDataset(std::string_view name, DatasetKind kind) { dataset_kinds().add(name, kind); }
};

/// Size, fields and classes of the data set `name`. CIFAR and drawn data sets need no file for it. An unknown name or
/// an impossible option is the input's fault.
DatasetInfo describe_dataset(std::string_view name, const DatasetOptions& options);

struct RecognizedDataset {
  std::string name;
  SettingValues settings{};
};
/// The data set whose files lie at `path`. A path that does not exist, and files of no kind or of several, are the
/// input's fault.
RecognizedDataset recognize_dataset(const std::filesystem::path& path);

/// Opens the data set `name`. Missing, truncated or malformed files are the input's fault; the message names them.
std::unique_ptr<const Dataset> open_dataset(std::string_view name, const DatasetOptions& options);

}  // namespace lacuna
