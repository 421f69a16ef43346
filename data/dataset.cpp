#include "data/dataset.h"

#include "core/error.h"
#include "data/files/picture_names.h"

#include <algorithm>

namespace lacuna {
namespace {

void check(const DatasetOptions& options) {
  for (const auto& [key, value] :
       {std::pair{"train_size", options.train_size}, std::pair{"val_size", options.validation_size},
        std::pair{"image_size", std::min(options.image_size.height, options.image_size.width)}})
    if (value < 0) reject("data.{}: expected 0 (the data set's own) or more, got {}", key, value);
}

}  // namespace

Fields DatasetOptions::fields() {
  using D = DatasetOptions;
  constexpr double most_samples = 0x7fffffff;  // products of two such counts and an image's size do not overflow
  return {field("path", &D::path, is_path, "the data set's file or folder"),
          field("length", &D::lengths, between(1, 1e6), or_one,
                "tokens per sequence in `plan`, `bench` and the data set `random_tokens`: a number, or a list that the "
                "samples of a batch use in turn; empty: 128, or a data set's longest"),
          field("vocabulary", &D::vocabulary, up_to(1e9), "random_tokens: vocabulary size; 0: BERT's 30522"),
          field("classes", &D::classes, up_to(1e6),
                "number of classes: of random_tokens, 0: 2; of mask_folder, 0: as many as have names, or as the masks "
                "hold"),
          field("seed", &D::seed, "seed of synthetic data sets, and of the samples that `val_fraction` holds out"),
          field("train_size", &D::train_size, up_to(most_samples), training_only,
                "use the first train_size training samples; 0: all, or a synthetic data set's default"),
          field("val_size", &D::validation_size, up_to(most_samples),
                "use the first val_size validation samples; 0: all, or a synthetic data set's default")};
}

std::int64_t Dataset::length(std::int64_t) const { return 1; }

std::int64_t Dataset::label(std::int64_t index) const {
  const SampleField* const field = find_class(info().fields);
  if (field == nullptr) reject("{}: expected samples of one class each, got {}", info().name, to_string(info().fields));
  Sample sample;
  sample.begin(0);
  read(index, sample);
  return *sample[field->name].data<std::int64_t>();
}

void InputReader::read_pair(std::string_view, std::string_view, Sample&) const {
  reject("expected one input a sample, got two: this data set has no pairs");
}

void Dataset::read(std::int64_t index, Sample& sample) const {
  expect(0 <= index && index < size(), "{} has no sample {}: it holds {}", info().name, index, size());
  sample.index = index;
  read_sample(index, sample);
}

void ImageDataset::read_sample(std::int64_t index, Sample& sample) const {
  const SampleField &pixels = *find_images(info().fields), &of_class = *find_class(info().fields);
  Tensor image = sample.make(pixels.name, pixels.shape, DType::u8);
  Tensor label = sample.make(of_class.name, {}, DType::i64);
  *label.data<std::int64_t>() = read_image(index, image.data<std::uint8_t>());
  sample.set(pixels.name, std::move(image));
  sample.set(of_class.name, std::move(label));
}

Registry<DatasetKind>& dataset_kinds() {
  static Registry<DatasetKind> kinds("data set (data.name)");
  return kinds;
}

DatasetInfo describe_dataset(std::string_view name, const DatasetOptions& options) {
  check(options);
  return dataset_kinds().get(name).describe(options);
}

namespace {

/// A phrase for a folder that is of no data set; empty where nothing is plain.
std::string what_lies_in(const std::filesystem::path& folder) {
  std::error_code failed;
  std::int64_t entries = 0, pictures = 0, folders = 0;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    ++entries;
    std::error_code ignored;
    folders += entry->is_directory(ignored) ? 1 : 0;
    pictures += is_image_name(entry->path().filename().native()) ? 1 : 0;
  }
  if (failed) return {};
  if (entries == 0) return ". It is an empty folder";
  if (pictures == 0) return folders == entries ? ". It holds folders without pictures" : "";
  return fmt::format(
      ". It holds {} pictures and no folders of classes with some: expected {}/CLASS/*, a folder a class", pictures,
      folder.native());
}

}  // namespace

RecognizedDataset recognize_dataset(const std::filesystem::path& path, const std::shared_ptr<OpenedFiles>& files) {
  std::error_code ignored;
  const bool is_pattern = path.native().find_first_of("{*") != std::string::npos;  // a pattern of shards
  if (!is_pattern && !std::filesystem::exists(path, ignored)) {
    const std::string near = nearest_name(path.native(), dataset_kinds().names());
    reject("data.path: {} does not exist{}", path.native(),
           near.empty() ? "" : fmt::format(", and no data set has this name: did you mean data.name={}?", near));
  }
  std::vector<RecognizedDataset> found;
  int certainty = 1;
  std::string known;
  for (const std::string& name : dataset_kinds().names()) {
    const DatasetKind& kind = dataset_kinds().get(name);
    if (kind.recognize == nullptr) continue;
    known += (known.empty() ? "" : ", ") + name;
    Recognition recognition = kind.recognize(path, *files);
    if (recognition.certainty < certainty) continue;
    if (recognition.certainty > certainty) found.clear();
    certainty = recognition.certainty;
    found.push_back({name, std::move(recognition.settings)});
  }
  if (found.empty())
    reject("data.path: {}: expected files of one of the data sets {}; data.name says which one to read them as{}",
           path.native(), known, what_lies_in(path));
  if (found.size() > 1)
    reject("data.path: {}: could be read as {} or as {}: data.name says which", path.native(), found[0].name,
           found[1].name);
  return std::move(found.front());
}

std::unique_ptr<const Dataset> open_dataset(std::string_view name, const DatasetOptions& options) {
  check(options);
  return dataset_kinds().get(name).open(options);
}

}  // namespace lacuna
