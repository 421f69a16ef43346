#include "core/error.h"
#include "data/files/pattern.h"
#include "data/pipeline.h"
#include "tests/data/tar_writer.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

namespace lacuna {
namespace {

using test::tar_end;
using test::tar_member;
using Names = std::vector<std::string>;

std::string shard(int first, int samples) {
  std::string bytes;
  for (int i = first; i < first + samples; ++i) {
    const std::string key = "dir.x/" + std::to_string(i);  // a dot in a folder ends no key
    bytes += tar_member(key + ".JPG", std::string(1, static_cast<char>('a' + i)));
    bytes += tar_member(key + ".seg.png", "mask");
    bytes += i % 2 == 0 ? tar_member(key + ".cls", std::to_string(i % 3) + "\n")
                        : tar_member(key + ".json", "{\"label\": " + std::to_string(i % 3) + "}");
  }
  return bytes + tar_end();
}

DatasetPtr open(const std::filesystem::path& path, Split split, OptionValues settings = {}) {
  return open_dataset("webdataset", {.path = path, .split = split, .settings = std::move(settings)});
}

TEST_CASE("webdataset: samples by key, labels of .cls and .json, splits by the names of shards") {
  const test::TemporaryFolder folder;
  test::write_file(folder / "train-000.tar", shard(0, 6));
  test::write_file(folder / "train-001.tar", shard(6, 3));
  test::write_file(folder / "val-000.tar", shard(9, 4));
  CHECK(recognize_dataset(folder.path()).name == "webdataset");
  const DatasetPtr train = open(folder.path(), Split::train), validation = open(folder.path(), Split::validation);
  CHECK(train->size() == 9);
  CHECK(validation->size() == 4);
  CHECK(train->info().classes == Names{"0", "1", "2"});
  Sample sample;
  for (std::int64_t i = 0; i < train->size(); ++i) {
    sample.begin(0);
    train->read(i, sample);
    CHECK(sample["images"].data<std::uint8_t>()[0] == 'a' + i);
    CHECK(sample["labels"].to_vector() == std::vector<double>{static_cast<double>(i % 3)});
    CHECK(train->label(i) == i % 3);
  }
  const auto pattern = folder / "train-{000..001}.tar";
  CHECK(recognize_dataset(pattern).name == "webdataset");
  const DatasetPtr by_pattern = open(pattern, Split::train, {{"labels", "cat, dog, cow"}});
  CHECK(by_pattern->info().classes == Names{"cat", "dog", "cow"});
  CHECK(by_pattern->size() + open(pattern, Split::validation)->size() == 9);
  CHECK(open(folder / "train-*.tar", Split::validation, {{"validation", (folder / "val-000.tar").string()}})->size() ==
        4);
}

TEST_CASE("webdataset: keys with dots, labels from one, and what belongs to no sample") {
  const test::TemporaryFolder folder;
  std::string bytes;
  for (int i = 0; i < 12; ++i) {
    const std::string key = i % 2 == 0 ? fmt::format("IMG.2019.{:02}", i) : fmt::format("img{}", i);
    bytes += tar_member(key + ".png", "x") + tar_member(key + ".cls", std::to_string(i % 3 + 1));
  }
  bytes += tar_member("img1.depth.png", "mask") + tar_member("img1.txt", "a text");
  test::write_file(folder / "x-0.tar", bytes + tar_end());
  const DatasetPtr train = open(folder.path(), Split::train);
  CHECK(train->size() + open(folder.path(), Split::validation)->size() == 12);
  CHECK(train->info().classes == Names{"1", "2", "3"});
  test::check_says(train->info().description, "1 .txt");
  CHECK(open_dataset("webdataset", {.path = folder.path(), .split = Split::validation, .hold_out = HoldOut::none})
            ->size() == 12);
}

TEST_CASE("webdataset: what cannot be read is refused") {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& bytes, OptionValues settings = {}) {
    const auto path = folder / "x.tar";
    std::filesystem::remove(path);
    test::write_file(path, bytes);
    try {
      open(path, Split::train, std::move(settings));
    } catch (const Error& error) {
      return error.fault() == Fault::input;
    }
    return false;
  };
  CHECK(refused(tar_member("1.jpg", "x") + tar_end()));                                       // no label
  CHECK(refused(tar_member("1.jpg", "x") + tar_member("1.cls", "0") + tar_end()));            // one class
  CHECK(refused(tar_member("1.jpg", "x") + tar_member("1.json", "{\"a\": 1}") + tar_end()));  // another key
  CHECK(refused(tar_member("1.jpg", "x") + tar_member("1.json", "{") + tar_end()));
  CHECK(refused(tar_end()));
  CHECK(refused(shard(0, 6).substr(0, 5000)));
  CHECK(refused(shard(0, 6), {{"labels", "a, b"}}));  // label 2
  CHECK_FALSE(refused(shard(0, 6)));
}

TEST_CASE("patterns: numbers, lists, stars") {
  const auto names = [](const std::string& pattern) {
    Names all;
    for (const auto& path : expand_pattern(pattern)) all.push_back(path.string());
    return all;
  };
  CHECK(names("a-{08..10}.tar") == Names{"a-08.tar", "a-09.tar", "a-10.tar"});
  CHECK(names("{a,b}/{1..2}") == Names{"a/1", "a/2", "b/1", "b/2"});
  CHECK(names("plain") == Names{"plain"});
  for (const char* const pattern : {"{1..", "{3..1}", "{a..b}", "{0..999999999}", "no-such-*"})
    CHECK_THROWS_AS(expand_pattern(pattern), Error);
}

}  // namespace
}  // namespace lacuna
