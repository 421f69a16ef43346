#include "data/sets/cifar.h"

#include "core/error.h"

#include <algorithm>
#include <array>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

std::int64_t published_size(const CifarFormat& format, Split split) {
  return split == Split::train ? format.train_images : format.validation_images;
}

DatasetInfo info_of(const CifarFormat& format, const DatasetOptions& options) {
  return {.name = format.name,
          .size = options.size() > 0 ? options.size() : published_size(format, options.split),
          .fields = image_fields(CifarFormat::side, CifarFormat::side, CifarFormat::channels),
          .classes = format.classes,
          .mean = format.mean,
          .deviation = format.deviation};
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

fs::path find_folder(const CifarFormat& format, const fs::path& path) {
  if (path.empty())
    reject("data.path: {} needs the folder of its binary version, which holds {}, {}", format.title,
           joined(format.train_files), joined(format.validation_files));
  std::error_code error;
  if (!fs::is_directory(path, error)) reject("data.path: {} is not a folder", path.native());
  const fs::path inner = path / format.archive_folder;
  return fs::is_directory(inner, error) ? inner : path;
}

bool has_pickles(const CifarFormat& format, const fs::path& path) {
  std::error_code ignored;
  for (const fs::path& folder : {path, path / format.pickle_folder})
    if (fs::is_regular_file(folder / format.pickle_file, ignored)) return true;
  return false;
}

Recognition recognize_cifar(const CifarFormat& format, const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return {};
  const bool binary = fs::is_regular_file(find_folder(format, path) / format.train_files.front(), ignored);
  return {.certainty = binary || has_pickles(format, path) ? 2 : 0};
}

std::vector<RecordFile> open_files(const CifarFormat& format, const DatasetOptions& options) {
  const fs::path folder = find_folder(format, options.path);
  const std::vector<std::string>& names = options.split == Split::train ? format.train_files : format.validation_files;
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    std::error_code error;
    if (!fs::exists(folder / name, error)) missing.push_back(name);
  }
  if (!missing.empty() && has_pickles(format, options.path))
    reject(
        "{}: holds {} as Python's pickles, which run code when they are read: expected its binary version, {}, or a "
        "folder of images for each class",
        options.path.native(), format.title, joined(format.train_files));
  if (!missing.empty())
    reject("{}: {} missing. The folder should hold the binary version of {}: {}, {}", folder.native(), joined(missing),
           format.title, joined(format.train_files), joined(format.validation_files));
  std::vector<RecordFile> files;
  for (const std::string& name : names) files.emplace_back(folder / name, format.record_bytes());
  return files;
}

}  // namespace

Cifar::Cifar(const CifarFormat& format, const DatasetOptions& options)
    : ImageDataset(info_of(format, options)), format_(format), files_(open_files(format, options)) {
  std::int64_t held = 0;
  for (const RecordFile& file : files_) {
    read_labels(file);
    held += file.records();
  }
  const char* const key = options.split == Split::train ? "train_size" : "val_size";
  if (options.size() == 0 && held != size())
    reject(
        "{}: the files hold {} images, but {} has {}: they are truncated or not the published ones; fetch them again, "
        "or say with data.{} how many to use",
        options.path.native(), held, format.title, size(), key);
  if (size() > held)
    reject("data.{0}: {1} images were asked for, the files hold {2}: data.{0}={2} takes all", key, size(), held);
}

std::int64_t Cifar::label_of(const RecordFile& file, std::int64_t record, const std::uint8_t* bytes) const {
  const std::int64_t label = bytes[format_.label_bytes - 1];
  const auto classes = static_cast<std::int64_t>(format_.classes.size());
  if (label >= classes)
    reject("{}: record {} has label {}, expected 0 to {}: the file is damaged or not of {}", file.path().native(),
           record, label, classes - 1, format_.title);
  return label;
}

void Cifar::read_labels(const RecordFile& file) {
  const std::int64_t records_at_once = std::min<std::int64_t>(256, file.records());
  const std::int64_t record_bytes = format_.record_bytes();
  std::vector<std::uint8_t> buffer(static_cast<std::size_t>(records_at_once * record_bytes));  // [records, bytes]
  for (std::int64_t begin = 0; begin < file.records(); begin += records_at_once) {
    const std::int64_t count = std::min(records_at_once, file.records() - begin);
    file.read(begin, std::span(buffer).first(static_cast<std::size_t>(count * record_bytes)));
    for (std::int64_t i = 0; i < count; ++i)
      labels_.push_back(static_cast<std::uint8_t>(label_of(file, begin + i, buffer.data() + i * record_bytes)));
  }
}

std::int64_t Cifar::read_image(std::int64_t index, std::uint8_t* image) const {
  expect(0 <= index && index < size(), "{} has no image {}: it holds {}", info().name, index, size());
  auto file = files_.begin();
  for (; index >= file->records(); ++file) index -= file->records();

  constexpr std::int64_t plane = CifarFormat::side * CifarFormat::side;
  std::array<std::uint8_t, CifarFormat::channels * plane + 2> buffer;  // one or two label bytes
  const auto record = std::span(buffer).first(static_cast<std::size_t>(format_.record_bytes()));
  file->read(index, record);
  const std::uint8_t* const pixels = record.data() + format_.label_bytes;  // [channels, side, side]
  for (std::int64_t i = 0; i < plane; ++i)
    for (std::int64_t c = 0; c < CifarFormat::channels; ++c)
      image[i * CifarFormat::channels + c] = pixels[c * plane + i];
  return label_of(*file, index, record.data());
}

const CifarFormat& cifar10_format() {
  static const CifarFormat format{
      .name = "cifar10",
      .title = "CIFAR-10",
      .archive_folder = "cifar-10-batches-bin",
      .pickle_folder = "cifar-10-batches-py",
      .pickle_file = "data_batch_1",
      .train_files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                      "data_batch_5.bin"},
      .validation_files = {"test_batch.bin"},
      .train_images = 50'000,
      .validation_images = 10'000,
      .label_bytes = 1,
      .classes = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"},
      .mean = {0.4914F, 0.4822F, 0.4465F},
      .deviation = {0.2470F, 0.2435F, 0.2616F}};
  return format;
}

const CifarFormat& cifar100_format() {
  static const CifarFormat format{
      .name = "cifar100",
      .title = "CIFAR-100",
      .archive_folder = "cifar-100-binary",
      .pickle_folder = "cifar-100-python",
      .pickle_file = "meta",
      .train_files = {"train.bin"},
      .validation_files = {"test.bin"},
      .train_images = 50'000,
      .validation_images = 10'000,
      .label_bytes = 2,  // superclass, class
      .classes = {"apple",       "aquarium_fish", "baby",      "bear",       "beaver",       "bed",
                  "bee",         "beetle",        "bicycle",   "bottle",     "bowl",         "boy",
                  "bridge",      "bus",           "butterfly", "camel",      "can",          "castle",
                  "caterpillar", "cattle",        "chair",     "chimpanzee", "clock",        "cloud",
                  "cockroach",   "couch",         "crab",      "crocodile",  "cup",          "dinosaur",
                  "dolphin",     "elephant",      "flatfish",  "forest",     "fox",          "girl",
                  "hamster",     "house",         "kangaroo",  "keyboard",   "lamp",         "lawn_mower",
                  "leopard",     "lion",          "lizard",    "lobster",    "man",          "maple_tree",
                  "motorcycle",  "mountain",      "mouse",     "mushroom",   "oak_tree",     "orange",
                  "orchid",      "otter",         "palm_tree", "pear",       "pickup_truck", "pine_tree",
                  "plain",       "plate",         "poppy",     "porcupine",  "possum",       "rabbit",
                  "raccoon",     "ray",           "road",      "rocket",     "rose",         "sea",
                  "seal",        "shark",         "shrew",     "skunk",      "skyscraper",   "snail",
                  "snake",       "spider",        "squirrel",  "streetcar",  "sunflower",    "sweet_pepper",
                  "table",       "tank",          "telephone", "television", "tiger",        "tractor",
                  "train",       "trout",         "tulip",     "turtle",     "wardrobe",     "whale",
                  "willow_tree", "wolf",          "woman",     "worm"},
      .mean = {0.5071F, 0.4866F, 0.4409F},
      .deviation = {0.2673F, 0.2564F, 0.2762F}};
  return format;
}

namespace {

template <const CifarFormat& (*format)()>
DatasetKind kind_of() {
  return {.describe = [](const DatasetOptions& options) { return info_of(format(), options); },
          .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
            return std::make_unique<Cifar>(format(), options);
          },
          .recognize = [](const fs::path& path, OpenedFiles&) { return recognize_cifar(format(), path); }};
}

const RegisterDataset register_cifar10("cifar10", kind_of<cifar10_format>());
const RegisterDataset register_cifar100("cifar100", kind_of<cifar100_format>());

}  // namespace

}  // namespace lacuna
