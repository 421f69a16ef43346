#include "data/pipeline.h"

#include "core/error.h"
#include "data/loader.h"
#include "tests/data/small_dataset.h"

#include <doctest/doctest.h>

#include <set>
#include <vector>

namespace lacuna {
namespace {

// Sentences of several lengths: sample i has 1 + i % 4 tokens, each of them i.
class Sentences final : public Dataset {
 public:
  explicit Sentences(std::int64_t size, Collation collation = Collation::padded)
      : Dataset({.name = "sentences",
                 .size = size,
                 .fields = {{.name = "ids", .dtype = DType::i64, .shape = {4}, .collation = collation, .padding = -1},
                            {.name = "scores", .dtype = DType::f32, .shape = {}}}}) {}

 private:
  void read_sample(std::int64_t index, Sample& sample) const override {
    const Tensor ids = sample.make("ids", {1 + index % 4}, DType::i64);
    ids.fill(static_cast<double>(index));
    sample.set("ids", ids);
    const Tensor score = sample.make("scores", {}, DType::f32);
    score.fill(0.5 * static_cast<double>(index));
    sample.set("scores", score);
  }
};

Batch read(const Batches& batches, std::int64_t first, std::int64_t epoch = 0) {
  Sample sample;
  return batches.read(epoch, first, batches.allocate(), sample);
}

std::vector<double> labels(const Batches& batches, std::int64_t epoch = 0) {
  std::vector<double> all;
  for (std::int64_t first = 0; first < batches.samples(); first += batches.size())
    for (const double label : read(batches, first, epoch)["labels"].to_vector()) all.push_back(label);
  return all;
}

TEST_CASE("collate pads a field of varying length to the longest sample and adds the lengths") {
  const Batch batch = read(Batches(std::make_shared<Sentences>(7), {.size = 3}), 3);
  CHECK(batch.samples == 3);
  CHECK(batch.first == 3);
  CHECK(batch["ids"].shape() == Shape{3, 4});
  CHECK(batch["ids"].to_vector() == std::vector<double>{3, 3, 3, 3, 4, -1, -1, -1, 5, 5, -1, -1});
  CHECK(batch["key_lengths"].to_vector() == std::vector<double>{4, 1, 2});
  CHECK(batch["scores"].to_vector() == std::vector<double>{1.5, 2, 2.5});
  const Batch last = read(Batches(std::make_shared<Sentences>(5), {.size = 4}), 4);
  CHECK(last["ids"].shape() == Shape{1, 1});
}

TEST_CASE("collate pads to sixteenths of the longest sample that there may be, and no further than that") {
  const auto padded = [](std::int64_t most, std::int64_t length) {
    Sample sample;
    sample.begin(0);
    sample.set("x", Tensor::zeros({length}, DType::f32, Device::cpu));
    return collate(std::span(&sample, 1), {{.name = "x", .shape = {most}, .collation = Collation::padded}})["x"]
        .shape()
        .back();
  };
  CHECK(padded(128, 1) == 8);
  CHECK(padded(128, 64) == 64);
  CHECK(padded(128, 65) == 72);
  CHECK(padded(100, 99) == 100);
  CHECK(padded(16, 3) == 3);
}

TEST_CASE("collate concatenates a packed field and adds the offsets") {
  const Batch batch = read(Batches(std::make_shared<Sentences>(7, Collation::packed), {.size = 3}), 3);
  CHECK(batch.samples == 3);
  CHECK(batch["ids"].to_vector() == std::vector<double>{3, 3, 3, 3, 4, 5, 5});
  CHECK(batch["offsets"].to_vector() == std::vector<double>{0, 4, 5, 7});
  CHECK(batch["scores"].to_vector() == std::vector<double>{1.5, 2, 2.5});
}

TEST_CASE("a part of a packed batch has its samples' rows and offsets that begin at 0") {
  const Batch batch = read(Batches(std::make_shared<Sentences>(8, Collation::packed), {.size = 8}), 0);
  const std::vector<Batch> parts = split_batch(batch, 4);
  REQUIRE(parts.size() == 4);
  CHECK(parts[0]["ids"].to_vector() == std::vector<double>{0, 1, 1});
  CHECK(parts[3]["ids"].to_vector() == std::vector<double>{6, 6, 6, 7, 7, 7, 7});
  CHECK(parts[3]["ids"].storage() == batch["ids"].storage());
  CHECK(parts[3]["offsets"].to_vector() == std::vector<double>{0, 3, 7});
  CHECK(parts[3]["scores"].to_vector() == std::vector<double>{3, 3.5});
  CHECK(parts[3].first == 6);
  const Batch part_of_part = parts[3].part(1, 2);
  CHECK(part_of_part["ids"].to_vector() == std::vector<double>{7, 7, 7, 7});
  CHECK(part_of_part["offsets"].to_vector() == std::vector<double>{0, 4});
  CHECK(batch["offsets"].to_vector() == std::vector<double>{0, 1, 3, 6, 10, 11, 13, 16, 20});
}

TEST_CASE("fields with the same offsets have the same lengths") {
  std::vector<Sample> samples(2);
  for (Sample& sample : samples) {
    sample.begin(0);
    sample.set("x", Tensor::zeros({2}, DType::f32, Device::cpu));
    sample.set("y", Tensor::zeros({3}, DType::f32, Device::cpu));
  }
  SampleFields fields{{.name = "x", .shape = {4}, .collation = Collation::packed},
                      {.name = "y", .shape = {4}, .collation = Collation::packed}};
  CHECK_THROWS_WITH_AS(collate(samples, fields), doctest::Contains("`y` has 3 rows, expected 2"), Error);
  fields[1].lengths = "y_offsets";
  const Batch batch = collate(samples, fields);
  CHECK(batch["offsets"].to_vector() == std::vector<double>{0, 2, 4});
  CHECK(batch.part(1, 2)["y_offsets"].to_vector() == std::vector<double>{0, 3});
}

TEST_CASE("collate refuses samples that are not as their fields say") {
  Sample sample;
  sample.begin(0);
  sample.set("x", Tensor::zeros({2, 3}, DType::f32, Device::cpu));
  const auto collated = [&](const SampleField& field) { return collate(std::span(&sample, 1), {field}); };
  CHECK(collated({.name = "x", .shape = {2, 3}})["x"].shape() == Shape{1, 2, 3});
  CHECK(collated({.name = "x", .shape = {7, 3}, .collation = Collation::padded})["key_lengths"].item() == 2);
  CHECK_THROWS_AS(collated({.name = "x", .shape = {3, 3}}), Error);
  CHECK_THROWS_AS(collated({.name = "x", .shape = {2, 4}, .collation = Collation::padded}), Error);
  CHECK_THROWS_AS(collated({.name = "x", .dtype = DType::i64, .shape = {2, 3}}), Error);
  CHECK_THROWS_WITH_AS(collated({.name = "y", .shape = {2, 3}}), doctest::Contains("`y`"), Error);
}

TEST_CASE("a loader prefetches padded batches in order, with any number of workers") {
  for (const int workers : {1, 3}) {
    Loader loader(Batches(std::make_shared<Sentences>(20), {.size = 3}), {.end_epoch = 1, .workers = workers});
    std::vector<double> scores;
    while (const std::optional<Batch> batch = loader.next())
      for (const double score : (*batch)["scores"].to_vector()) scores.push_back(score);
    REQUIRE(scores.size() == 20);
    for (std::size_t i = 0; i < 20; ++i) CHECK(scores[i] == 0.5 * static_cast<double>(i));
  }
}

TEST_CASE("data sets compose in any order") {
  const DatasetPtr source = std::make_shared<SmallDataset>(30);
  const Transforms plain = image_transforms(source->info(), {});
  CHECK(take(source, 4)->size() == 4);
  CHECK_THROWS_AS(take(source, 31), Error);

  const Batches first_shuffled(take(shuffle(transform(source, plain, 1), 5), 8), {.size = 4});
  const Batches shuffled_first(shuffle(take(transform(source, plain, 1), 8), 5), {.size = 4});
  CHECK(labels(first_shuffled) != labels(first_shuffled, 1));
  const std::vector<double> some = labels(shuffled_first);
  CHECK(std::set(some.begin(), some.end()) == std::set<double>{0, 1, 2, 3, 4, 5, 6, 7});

  // The draws belong to the sample, wherever it stands in the order.
  const Transforms random = image_transforms(source->info(), {.augment = "crop_flip", .crop_padding = 2});
  const Batches inside(shuffle(transform(source, random, 3), 5), {.size = 30});
  const Batches outside(transform(shuffle(source, 5), random, 3), {.size = 30});
  CHECK(read(inside, 0)["images"].to_vector() == read(outside, 0)["images"].to_vector());
}

TEST_CASE("a sample's last transform writes into the batch") {
  const DatasetPtr source = std::make_shared<SmallDataset>(6);
  const DatasetPtr ready = transform(source, image_transforms(source->info(), {.augment = "crop_flip"}), 1);
  const Tensor place = Tensor::zeros({4, 6, 3}, DType::f32, Device::cpu);
  Sample sample;
  NamedTensors places;
  places.set("images", place);
  sample.begin(0, places);
  ready->read(2, sample);
  CHECK(sample["images"].raw() == place.raw());
  sample.begin(0);
  ready->read(2, sample);
  CHECK(sample["images"].raw() != place.raw());
  CHECK(sample["images"].to_vector() == place.to_vector());
}

TEST_CASE("scratch memory that someone else holds is not used again") {
  Sample sample;
  sample.begin(0);
  const Tensor kept = sample.make("x", {3}, DType::f32);
  sample.set("x", kept);
  sample.begin(0);
  CHECK(sample.make("x", {3}, DType::f32).raw() != kept.raw());
}

TEST_CASE("a batch splits into views of equal parts") {
  const Batch batch =
      read(Batches(transform(std::make_shared<SmallDataset>(12), image_transforms(SmallDataset(12).info(), {}), 1),
                   {.size = 6}),
           6);
  const std::vector<Batch> parts = split_batch(batch, 3);
  REQUIRE(parts.size() == 3);
  CHECK(parts[2].samples == 2);
  CHECK(parts[2].first == 10);
  CHECK(parts[2]["labels"].to_vector() == std::vector<double>{10, 11});
  CHECK(parts[1]["images"].storage() == batch["images"].storage());
  CHECK_THROWS_AS(split_batch(batch, 4), Error);
  CHECK_THROWS_AS(
      Batch({{"x", Tensor::zeros({2}, DType::f32, Device::cpu)}, {"y", Tensor::zeros({3}, DType::f32, Device::cpu)}}),
      Error);
  CHECK_THROWS_WITH_AS(batch["logits"], doctest::Contains("images, labels"), Error);
}

}  // namespace
}  // namespace lacuna
