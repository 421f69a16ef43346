#include "data/sets/cifar.h"

#include "core/error.h"
#include "core/ledger.h"
#include "tests/data/read_image.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace lacuna {
namespace {

using test::check_says;
using test::TemporaryFolder;
using test::write_file;

// Records whose labels and pixels say where they stand: pixel p of plane c of record r is r + 7p + 50c.
std::string records(std::int64_t first, std::int64_t count, std::int64_t classes, bool with_superclass = false) {
  std::string bytes;
  for (std::int64_t r = first; r < first + count; ++r) {
    if (with_superclass) bytes += static_cast<char>(r % 20);
    bytes += static_cast<char>(r % classes);
    for (std::int64_t c = 0; c < 3; ++c)
      for (std::int64_t p = 0; p < 1024; ++p) bytes += static_cast<char>(r + 7 * p + 50 * c);
  }
  return bytes;
}

void write_cifar10(const TemporaryFolder& folder) {
  for (std::int64_t i = 0; i < 5; ++i)
    write_file(folder / ("data_batch_" + std::to_string(i + 1) + ".bin"), records(3 * i, i == 4 ? 1 : 3, 10));
  write_file(folder / "test_batch.bin", records(100, 4, 10));
}

/// `images`: how many to use; 0: all that were published.
DatasetOptions options_of(const std::filesystem::path& path, Split split = Split::train, std::int64_t images = 0) {
  return {.path = path, .split = split, .train_size = images, .validation_size = images};
}

std::string refusal(std::string_view name, const DatasetOptions& options) {
  return test::refusal_of([&] { open_dataset(name, options); });
}

TEST_CASE("CIFAR-10: every record of every file, pixels interleaved") {
  const TemporaryFolder folder;
  write_cifar10(folder);
  const auto train = open_dataset("cifar10", options_of(folder.path(), Split::train, 13));
  CHECK(train->size() == 13);
  CHECK(train->info().classes.size() == 10);
  CHECK(train->info().classes[9] == "truck");
  for (std::int64_t r = 0; r < train->size(); ++r) {
    const auto [image, label] = read_image(*train, r);
    CHECK(label == r % 10);
    bool same = true;
    for (std::int64_t p = 0; p < 1024; ++p)
      for (std::int64_t c = 0; c < 3; ++c)
        same &= image[static_cast<std::size_t>(p * 3 + c)] == static_cast<std::uint8_t>(r + 7 * p + 50 * c);
    CHECK(same);
  }
  CHECK_THROWS_AS(read_image(*train, 13), Error);
  const auto validation = open_dataset("cifar10", options_of(folder.path(), Split::validation, 4));
  CHECK(validation->size() == 4);
  CHECK(read_image(*validation, 2).label == 2);
}

TEST_CASE("CIFAR-100: the class is the second label") {
  const TemporaryFolder folder;
  write_file(folder / "train.bin", records(57, 30, 100, true));
  write_file(folder / "test.bin", records(0, 2, 100, true));
  const auto train = open_dataset("cifar100", options_of(folder.path(), Split::train, 30));
  CHECK(train->size() == 30);
  CHECK(train->info().classes.size() == 100);
  const auto [image, label] = read_image(*train, 0);
  CHECK(label == 57);
  CHECK(image[0] == 57);
  CHECK(image[1] == 107);
  CHECK(read_image(*train, 29).label == 86);
  CHECK(train->label(29) == 86);
}

TEST_CASE("CIFAR: the archive's folder is found, a smaller size takes the first images, no image is held in memory") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "cifar-100-binary");
  write_file(folder / "cifar-100-binary/train.bin", records(0, 30, 100, true));
  DatasetOptions options = options_of(folder.path());
  options.train_size = 20;
  const std::int64_t before = ledger(Device::cpu).total();
  CHECK(open_dataset("cifar100", options)->size() == 20);
  CHECK(ledger(Device::cpu).total() == before);
  options.train_size = 31;
  check_says(refusal("cifar100", options), "data.train_size=30");
}

TEST_CASE("CIFAR: what is missing is named, with what the folder should hold") {
  const TemporaryFolder folder;
  write_cifar10(folder);
  std::filesystem::remove(folder / "data_batch_2.bin");
  std::filesystem::remove(folder / "data_batch_5.bin");
  const std::string message = refusal("cifar10", options_of(folder.path()));
  check_says(message, folder.path() + ": data_batch_2.bin, data_batch_5.bin missing");
  check_says(message, "data_batch_1.bin, data_batch_2.bin");
  check_says(message, "test_batch.bin");
  CHECK(open_dataset("cifar10", options_of(folder.path(), Split::validation, 4))->size() == 4);

  check_says(refusal("cifar10", options_of("")), "data.path: CIFAR-10 needs the folder");
  check_says(refusal("cifar10", options_of(folder / "nowhere")), "nowhere is not a folder");
}

TEST_CASE("CIFAR: truncated, empty and foreign files are refused") {
  const TemporaryFolder folder;
  write_cifar10(folder);
  const std::string name = folder / "data_batch_3.bin";
  write_file(name, records(0, 3, 10).substr(0, 3 * 3073 - 1));
  check_says(refusal("cifar10", options_of(folder.path())),
             name + ": expected a whole number of records of 3073 bytes, got 9218 bytes (2 records and 3072 bytes)");
  write_file(name, "");
  check_says(refusal("cifar10", options_of(folder.path())), "got 0 bytes");
  write_file(name, records(0, 3, 10) + "x");
  check_says(refusal("cifar10", options_of(folder.path())), "(3 records and 1 bytes)");
  std::filesystem::remove(name);
  std::filesystem::create_directory(name);
  check_says(refusal("cifar10", options_of(folder.path())), name + ": expected a regular file");
}

TEST_CASE("CIFAR: files that end at a record are truncated too, unless fewer images are asked for") {
  const TemporaryFolder folder;
  write_cifar10(folder);
  check_says(refusal("cifar10", options_of(folder.path())), "the files hold 13 images, but CIFAR-10 has 50000");
  check_says(refusal("cifar10", options_of(folder.path(), Split::validation)), "hold 4 images, but CIFAR-10 has 10000");
  CHECK(cifar100_format().train_images == 50'000);
  CHECK(cifar100_format().validation_images == 10'000);
}

TEST_CASE("CIFAR: a label out of range is named with file and record") {
  const TemporaryFolder folder;
  write_cifar10(folder);
  std::string bytes = records(0, 600, 10);
  bytes[3073 * 517] = 10;
  write_file(folder / "data_batch_4.bin", bytes);
  check_says(refusal("cifar10", options_of(folder.path())),
             (folder / "data_batch_4.bin").string() + ": record 517 has label 10, expected 0 to 9");

  std::string fine = records(0, 3, 100, true);
  fine[3074 + 1] = static_cast<char>(200);
  write_file(folder / "train.bin", fine);
  check_says(refusal("cifar100", options_of(folder.path())), "record 1 has label 200, expected 0 to 99");
}

TEST_CASE("CIFAR: a file that is cut while it is in use ends the run with its name") {
  const TemporaryFolder folder;
  write_cifar10(folder);
  const auto train = open_dataset("cifar10", options_of(folder.path(), Split::train, 13));
  std::filesystem::resize_file(folder / "data_batch_1.bin", 4000);
  CHECK(read_image(*train, 0).label == 0);
  CHECK_THROWS_WITH(read_image(*train, 1), doctest::Contains((folder / "data_batch_1.bin").string().c_str()));
}

TEST_CASE("data sets are found by name; a message for an unknown one names a known one") {
  for (const char* const name : {"cifar10", "cifar100", "shapes"}) CHECK(dataset_kinds().contains(name));
  check_says(refusal("cifar", {}), "data.name");
  check_says(refusal("cifar", {}), "cifar10");
  DatasetOptions negative;
  negative.train_size = -5;
  check_says(refusal("shapes", negative), "data.train_size");
  CHECK(describe_dataset("cifar100", {}).classes.size() == 100);
  CHECK(field_of(describe_dataset("cifar10", {}).fields, "images").shape == Shape{32, 32, 3});
  CHECK(describe_dataset("cifar10", {}).size == 50'000);
  CHECK(describe_dataset("cifar10", {.split = Split::validation}).size == 10'000);
  CHECK(describe_dataset("cifar10", {.train_size = 20}).size == 20);
}

}  // namespace
}  // namespace lacuna
