// Data sets: labelled samples by index, registered by name. A new data set registers itself in its own file
// (docs/adding-data.md).
#pragma once

#include "core/registry.h"
#include "core/schema.h"
#include "data/hold_out.h"
#include "data/image_size.h"
#include "data/opened_files.h"
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

/// The configuration of a data set. Each data set reads the options that apply to it.
struct DatasetOptions {
  std::filesystem::path path{};  // folder of the files; unused by synthetic data sets
  Split split = Split::train;
  std::uint64_t seed = 1;       // for synthetic data sets
  std::int64_t train_size = 0;  // number of samples to use; 0: all of them, or a synthetic data set's default
  std::int64_t validation_size = 0;
  ImageSize image_size = 0;  // synthetic data sets: in pixels; 0: the data set's default
  // Synthetic text: tokens per sample, used in turn; number of token ids; number of classes. Empty or 0: the defaults.
  std::vector<std::int64_t> lengths{};
  std::int64_t vocabulary = 0;
  std::int64_t classes = 0;
  std::filesystem::path model{};  // folder of the model being trained, which may hold a tokenizer; may be empty
  OptionValues settings{};        // options specific to the data set's kind
  HoldOut hold_out = HoldOut::by_name;
  std::shared_ptr<const HeldOut> held_out_before{};  // by the run that is evaluated or goes on
  /// Copies share it, so that a description and both splits read a file once.
  std::shared_ptr<OpenedFiles> files = std::make_shared<OpenedFiles>();

  static Fields fields();
  /// The requested number of samples of `split`.
  std::int64_t size() const { return split == Split::train ? train_size : validation_size; }
};

/// The description of a data set, known before any sample is read.
struct DatasetInfo {
  std::string name;
  std::int64_t size = 0;                      // samples of the split
  SampleFields fields{};                      // the fields of each sample
  std::vector<std::string> classes{};         // names by label; empty if labels are numbers
  std::vector<float> mean{}, deviation{};     // [channels] of the train split's images, scaled to [0, 1]
  std::vector<std::string> metrics{};         // evaluation metrics; empty: the task's default
  std::string description{};                  // human-readable summary of the files found; may be empty
  Vocabulary vocabulary{};                    // for text
  std::vector<std::string> text_columns{};    // of a table; two: pairs in one sequence
  std::shared_ptr<const HeldOut> held_out{};  // null if the files have a part of their own for evaluation
};

/// A sample's class, i64 [] below `classes` (0: unknown).
SampleField class_field(std::int64_t classes = 0);
/// The field that tasks predict, of whatever kind; null if there is none.
const SampleField* find_target(const SampleFields& fields);
/// Fields of a labelled image data set: pixels u8 [height, width, channels] and a label i64 [].
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

  /// Length of the packed or padded tensors of sample `index`; 1 if it has none. Thread-safe.
  virtual std::int64_t length(std::int64_t index) const;

  /// The class of sample `index`; the default implementation reads the sample. Throws if samples have no class.
  /// Thread-safe.
  virtual std::int64_t label(std::int64_t index) const;

  /// Reads sample `index` into `sample`, for which `begin` was called. Thread-safe.
  void read(std::int64_t index, Sample& sample) const;

 private:
  virtual void read_sample(std::int64_t index, Sample& sample) const = 0;

  DatasetInfo info_;
};

/// A data set of labelled u8 images, decoded on demand; its fields are image_fields().
class ImageDataset : public Dataset {
 public:
  using Dataset::Dataset;
  std::int64_t image_bytes() const { return find_images(info().fields)->shape.count(); }
  /// Writes image `index` to `image` (u8 [height, width, channels]) and returns its label. Thread-safe.
  virtual std::int64_t read_image(std::int64_t index, std::uint8_t* image) const = 0;

 private:
  void read_sample(std::int64_t index, Sample& sample) const final;
};

/// Makes samples from a user's inputs, such as texts.
class InputReader {
 public:
  virtual ~InputReader() = default;
  /// The fields of a sample, without targets.
  virtual const SampleFields& fields() const = 0;
  /// For texts, with the names of the tokens.
  virtual Vocabulary vocabulary() const { return {}; }
  /// Sets the tensors of `sample`. An unreadable input is the input's fault.
  virtual void read(std::string_view input, Sample& sample) const = 0;
  /// The same for a pair of inputs; throws if the data set has no pairs.
  virtual void read_pair(std::string_view input, std::string_view pair, Sample& sample) const;
};

/// How surely files belong to a kind of data set.
struct Recognition {
  int certainty = 0;        // 0: no match; 1: content matches; 2: names match; 3: names of pairs match
  OptionValues settings{};  // settings inferred from the files
};

/// A kind of data set in the registry.
struct DatasetKind {
  DatasetInfo (*describe)(const DatasetOptions& options);
  std::unique_ptr<const Dataset> (*open)(const DatasetOptions& options);
  bool reads_files = true;  // whether it uses `DatasetOptions::path`
  Options options{};        // in addition to the options of all data sets; their default values
  /// Makes a reader of single inputs, which needs none of the files; null: not supported.
  std::unique_ptr<const InputReader> (*inputs)(const DatasetOptions& options) = nullptr;
  /// Tells whether the files at an existing path are of this kind; null: the kind is never recognised.
  Recognition (*recognize)(const std::filesystem::path& path, OpenedFiles& files) = nullptr;
};
Registry<DatasetKind>& dataset_kinds();
/// The option of a data set that lists its classes in order; null if there is none.
const Field* find_class_list(const Options& options);

/// Registers a data set; define a static object of this type in the data set's source file.
struct RegisterDataset {
  RegisterDataset(std::string_view name, DatasetKind kind) { dataset_kinds().add(name, kind); }
};

/// Describes the data set `name`: size, fields and classes. CIFAR and synthetic data sets need no file for that. An
/// unknown name or an invalid option is the input's fault.
DatasetInfo describe_dataset(std::string_view name, const DatasetOptions& options);

struct RecognizedDataset {
  std::string name;
  OptionValues settings{};
};
/// Finds the data set whose files are at `path`. A missing path, and files that match no kind or several, are the
/// input's fault.
RecognizedDataset recognize_dataset(const std::filesystem::path& path,
                                    const std::shared_ptr<OpenedFiles>& files = std::make_shared<OpenedFiles>());

/// Opens the data set `name`. Missing, truncated or malformed files are the input's fault; the message names them.
std::unique_ptr<const Dataset> open_dataset(std::string_view name, const DatasetOptions& options);

}  // namespace lacuna
