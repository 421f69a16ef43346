#include "data/loader.h"

#include "core/error.h"
#include "tests/data/small_dataset.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <vector>

namespace lacuna {
namespace {

// A batch as plain values: two streams of batches compare with ==.
struct Seen {
  std::int64_t epoch, first;
  std::vector<double> images, labels;
  bool operator==(const Seen&) const = default;
};

std::vector<Seen> collect(Loader& loader, std::size_t most = 1000) {
  std::vector<Seen> seen;
  while (seen.size() < most) {
    const std::optional<Batch> batch = loader.next();
    if (!batch) break;
    seen.push_back({batch->epoch, batch->first, (*batch)["images"].to_vector(), (*batch)["labels"].to_vector()});
  }
  return seen;
}

// A pipeline as training has it.
struct Pipeline {
  BatchOptions batches{.size = 5, .drop_last = true};
  LoaderOptions loading{.end_epoch = 3};
  bool shuffled = true;
  std::string augment = "crop_flip";
  std::uint64_t seed = 7;
  bool splits = true;  // normalisation and what follows happen once a batch is taken
  AugmentOptions pixels{};
};

Batches batches_of(DatasetPtr source, const Pipeline& pipeline) {
  const Transforms transforms =
      image_transforms(source->info(), {.augment = pipeline.augment, .pixels = pipeline.pixels, .crop_padding = 2});
  BatchOptions options = pipeline.batches;
  SplitTransforms split{transforms, {}};
  if (pipeline.splits) split = split_at_f32(transforms, source->info().fields);
  options.late = split.late;
  source = transform(std::move(source), split.early, pipeline.seed);
  if (pipeline.shuffled) source = shuffle(std::move(source), pipeline.seed);
  return {std::move(source), options};
}

std::vector<Seen> collect(const Pipeline& pipeline, std::int64_t images = 23) {
  Loader loader(batches_of(std::make_shared<SmallDataset>(images), pipeline), pipeline.loading);
  return collect(loader);
}

const Pipeline training;

Pipeline evaluation(std::int64_t size) {
  return {.batches = {.size = size}, .loading = {.end_epoch = 1}, .shuffled = false, .augment = "none"};
}

TEST_CASE("evaluation: each image once, in order, the last batch as full as it is") {
  Loader loader(batches_of(std::make_shared<SmallDataset>(13), evaluation(5)), {.end_epoch = 1});
  CHECK(loader.steps_per_epoch() == 3);
  const std::vector<Seen> seen = collect(loader);
  REQUIRE(seen.size() == 3);
  CHECK(seen[0].labels == std::vector<double>{0, 1, 2, 3, 4});
  CHECK(seen[2].labels == std::vector<double>{10, 11, 12});
  CHECK(seen[2].images.size() == 3 * 4 * 6 * 3);
  CHECK(seen[2].images[1] == doctest::Approx((310 % 256 + 1) / 255.0));
  CHECK(!loader.next());
}

TEST_CASE("training: whole batches, another order in every epoch, each image at most once an epoch") {
  const std::vector<Seen> seen = collect(training);
  REQUIRE(seen.size() == 12);
  std::set<std::vector<double>> orders;
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<double> order;
    for (std::size_t step = 0; step < 4; ++step) {
      const Seen& batch = seen[epoch * 4 + step];
      CHECK(batch.epoch == static_cast<std::int64_t>(epoch));
      CHECK(batch.first == 5 * static_cast<std::int64_t>(step));
      order.insert(order.end(), batch.labels.begin(), batch.labels.end());
    }
    CHECK(std::set(order.begin(), order.end()).size() == 20);
    orders.insert(order);
  }
  CHECK(orders.size() == 3);
}

TEST_CASE("a loader that begins within an epoch gives the batches of an unbroken one") {
  const std::vector<Seen> whole = collect(training);
  for (const std::size_t at : {0, 1, 4, 6, 11, 12}) {
    Pipeline resumed = training;
    resumed.loading.first_epoch = static_cast<std::int64_t>(at) / 4;
    resumed.loading.first_sample = 5 * (static_cast<std::int64_t>(at) % 4);
    CHECK(collect(resumed) == std::vector(whole.begin() + static_cast<std::ptrdiff_t>(at), whole.end()));
  }
  Pipeline end_of_epoch = training;
  end_of_epoch.loading.first_sample = 20;  // a run that stopped after the last step of epoch 0
  CHECK(collect(end_of_epoch) == std::vector(whole.begin() + 4, whole.end()));
}

TEST_CASE("a loader with other batches goes on in the same order of images") {
  const auto order = [](const Pipeline& options, std::int64_t epoch) {
    std::vector<double> images;
    for (const Seen& batch : collect(options))
      if (batch.epoch == epoch) images.insert(images.end(), batch.labels.begin(), batch.labels.end());
    return images;
  };
  const std::vector<double> whole = order(training, 1);
  Pipeline other = training;
  other.batches.size = 3;
  other.loading.first_epoch = 1;
  other.loading.first_sample = 10;
  const std::vector<double> rest = order(other, 1);
  REQUIRE(rest.size() == 12);  // of the 13 that are left
  CHECK(std::vector(rest.begin(), rest.begin() + 10) == std::vector(whole.begin() + 10, whole.end()));
  CHECK(order(other, 2).size() == 21);
  other.batches.size = 14;  // more than are left: the next epoch begins
  CHECK(order(other, 1).empty());
  CHECK(order(other, 2).size() == 14);
}

TEST_CASE("workers and depth do not change the batches") {
  const std::vector<Seen> one = collect(training);
  for (const auto& [workers, depth] : {std::pair{1, 1}, {2, 1}, {2, 3}, {5, 4}}) {
    Pipeline options = training;
    options.loading.workers = workers;
    options.loading.depth = depth;
    CHECK(collect(options) == one);
  }
  Pipeline reseeded = training;
  reseeded.seed = 8;
  CHECK(collect(reseeded) != one);
}

TEST_CASE("batches that wait hold u8; what is taken is the same as of f32 batches") {
  Pipeline pipeline = training;
  pipeline.pixels = {.erase_probability = 0.7, .erase_count = 3};
  pipeline.batches = {.size = 6, .drop_last = true};
  pipeline.batches.mixing = std::make_shared<const Mixing>(
      MixOptions{.mixup = 0.8, .cutmix = 1, .mode = MixMode::element, .classes = 23, .seed = 3});
  const std::vector<Seen> late = collect(pipeline);
  pipeline.splits = false;
  CHECK(collect(pipeline) == late);
  pipeline.pixels = {};
  CHECK(collect(pipeline) != late);
  pipeline.splits = true;
  pipeline.loading.workers = 3;
  const DatasetPtr source = std::make_shared<SmallDataset>(23);
  const Batches batches = batches_of(source, pipeline);
  CHECK(batches.info().fields[0].dtype == DType::f32);
  CHECK(batches.allocate().tensors["images"].dtype() == DType::u8);
}

TEST_CASE("batches take their memory for data, and are their caller's alone") {
  const auto held = [] { return at(ledger(Device::cpu).live(), Purpose::data); };
  constexpr std::int64_t image = 4 * 6 * 3;
  const std::int64_t before = held();
  for (const bool splits : {true, false}) {
    const std::int64_t batch_bytes = 5 * (image * 4 + 8);
    const std::int64_t waiting_bytes = splits ? 5 * (image + 8) : batch_bytes;
    const std::int64_t sample_bytes = splits ? 0 : image;  // the decoded image of the worker
    Pipeline pipeline = training;
    pipeline.augment = "none";
    pipeline.splits = splits;
    Loader loader(batches_of(std::make_shared<SmallDataset>(23), pipeline), pipeline.loading);
    CHECK(collect(loader, 7).size() == 7);
    CHECK(held() - before == 2 * waiting_bytes + sample_bytes);
    CHECK(std::ranges::any_of(ledger(Device::cpu).holders(),
                              [](const Held& holder) { return holder.owner.op.text() == "loader"; }));
    {
      const std::optional<Batch> batch = loader.next();
      CHECK((*batch)["images"].unique());
      CHECK((*batch)["labels"].unique());
      CHECK(held() - before == 2 * waiting_bytes + batch_bytes + sample_bytes);
    }
    CHECK(held() - before == 2 * waiting_bytes + sample_bytes);

    std::vector<Batch> kept;  // a caller may keep batches: they stay as they were
    while (std::optional<Batch> batch = loader.next()) kept.push_back(*batch);
    const std::vector<Seen> whole = collect(training);
    REQUIRE(kept.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(kept[i]["labels"].to_vector() == whole[8 + i].labels);
  }
  CHECK(held() == before);
}

TEST_CASE("an error of a worker reaches the caller at its batch") {
  for (const int workers : {1, 3}) {
    Loader loader(batches_of(std::make_shared<SmallDataset>(20, 12), evaluation(5)),
                  {.end_epoch = 1, .workers = workers});
    CHECK(loader.next()->first == 0);
    CHECK(loader.next()->first == 5);
    CHECK_THROWS_WITH_AS(loader.next(), "image 12 is damaged", Error);
    CHECK_THROWS_WITH_AS(loader.next(), "image 12 is damaged", Error);
  }
}

// Asks for its own end while it is read.
class EndlessDataset final : public SmallDataset {
 public:
  EndlessDataset() : SmallDataset(1'000'000'000) {}
  std::int64_t read_image(std::int64_t index, std::uint8_t* image) const override {
    reads.fetch_add(1);
    reads.notify_all();
    return SmallDataset::read_image(index, image);
  }
  mutable std::atomic<std::int64_t> reads = 0;
};

TEST_CASE("a loader that is destroyed does not finish its batches") {
  const auto dataset = std::make_shared<EndlessDataset>();
  {
    const Loader loader(batches_of(dataset, evaluation(1'000'000)), {.workers = 2});
    dataset->reads.wait(0);
  }
  CHECK(dataset->reads < 2'000'000);
}

TEST_CASE("a batch larger than the data set is the input's fault") {
  const auto dataset = std::make_shared<SmallDataset>(10);
  Pipeline pipeline = training;
  pipeline.batches.size = 11;
  CHECK_THROWS_WITH_AS(batches_of(dataset, pipeline), doctest::Contains("batch_size"), Error);
  CHECK_THROWS_AS(batches_of(dataset, evaluation(0)), Error);
  CHECK(batches_of(dataset, evaluation(11)).count() == 1);
}

TEST_CASE("ranks read the parts of the batch that one process reads") {
  const std::vector<Seen> whole = collect(training);
  Pipeline part = training;
  std::vector<std::vector<Seen>> parts;
  part.batches.ranks = 5;
  for (part.batches.rank = 0; part.batches.rank < 5; ++part.batches.rank) parts.push_back(collect(part));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::vector<double> images, labels;
    for (std::size_t rank = 0; rank < 5; ++rank) {
      const Seen& seen = parts[rank].at(i);
      CHECK(seen.first == whole[i].first + static_cast<std::int64_t>(rank));
      images.insert(images.end(), seen.images.begin(), seen.images.end());
      labels.insert(labels.end(), seen.labels.begin(), seen.labels.end());
    }
    CHECK(images == whole[i].images);
    CHECK(labels == whole[i].labels);
  }
  part.batches.ranks = 2;
  CHECK_THROWS_AS(collect(part), Error);  // 5 samples
}

TEST_CASE("the parts of ranks are the batches of one process, also where the last batch is not full") {
  const auto dataset = std::make_shared<SmallDataset>(11);
  const auto seen = [&](const BatchOptions& options) {
    std::vector<std::pair<std::int64_t, std::int64_t>> parts;  // first place and samples
    Loader loader(Batches(dataset, options), {.end_epoch = 1});
    while (const std::optional<Batch> batch = loader.next()) parts.emplace_back(batch->first, batch->samples);
    return parts;
  };
  using Parts = std::vector<std::pair<std::int64_t, std::int64_t>>;
  CHECK(seen({.size = 2}) == Parts{{0, 2}, {2, 2}, {4, 2}, {6, 2}, {8, 2}, {10, 1}});
  CHECK(seen({.size = 8, .rank = 0, .ranks = 4}) == Parts{{0, 2}, {8, 2}});
  CHECK(seen({.size = 8, .rank = 1, .ranks = 4}) == Parts{{2, 2}, {10, 1}});
  CHECK(seen({.size = 8, .rank = 3, .ranks = 4}) == Parts{{6, 2}, {11, 0}});
}

}  // namespace
}  // namespace lacuna
