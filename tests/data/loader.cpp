#include "data/loader.h"

#include "core/error.h"
#include "tests/data/small_dataset.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

namespace lacuna {
namespace {

// A batch as plain values: two streams of batches compare with ==.
struct Seen {
  std::int64_t epoch, first;
  std::vector<double> images, targets;
  bool operator==(const Seen&) const = default;
};

std::vector<Seen> collect(Loader& loader, std::size_t most = 1000) {
  std::vector<Seen> seen;
  while (seen.size() < most) {
    const std::optional<Batch> batch = loader.next();
    if (!batch) break;
    seen.push_back({batch->epoch, batch->first, batch->images.to_vector(), batch->targets.to_vector()});
  }
  return seen;
}

std::vector<Seen> collect(const LoaderOptions& options, std::int64_t images = 23, std::size_t most = 1000) {
  Loader loader(std::make_shared<SmallDataset>(images), {.augment = "crop_flip", .crop_padding = 2}, options);
  return collect(loader, most);
}

const LoaderOptions training{.batch_size = 5, .shuffle = true, .drop_last = true, .seed = 7, .end_epoch = 3};

TEST_CASE("evaluation: each image once, in order, the last batch as full as it is") {
  Loader loader(std::make_shared<SmallDataset>(13), {}, {.batch_size = 5, .end_epoch = 1});
  CHECK(loader.steps_per_epoch() == 3);
  const std::vector<Seen> seen = collect(loader);
  REQUIRE(seen.size() == 3);
  CHECK(seen[0].targets == std::vector<double>{0, 1, 2, 3, 4});
  CHECK(seen[2].targets == std::vector<double>{10, 11, 12});
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
      order.insert(order.end(), batch.targets.begin(), batch.targets.end());
    }
    CHECK(std::set(order.begin(), order.end()).size() == 20);
    orders.insert(order);
  }
  CHECK(orders.size() == 3);
}

TEST_CASE("a loader that begins at (epoch, image) gives what an unbroken one gives from there") {
  const std::vector<Seen> whole = collect(training);
  for (const std::size_t at : {0, 1, 4, 6, 11, 12}) {
    LoaderOptions resumed = training;
    resumed.first_epoch = static_cast<std::int64_t>(at) / 4;
    resumed.first_image = 5 * (static_cast<std::int64_t>(at) % 4);
    CHECK(collect(resumed) == std::vector(whole.begin() + static_cast<std::ptrdiff_t>(at), whole.end()));
  }
  LoaderOptions end_of_epoch = training;
  end_of_epoch.first_image = 20;  // as a run says that stopped after the last step of epoch 0
  CHECK(collect(end_of_epoch) == std::vector(whole.begin() + 4, whole.end()));
}

TEST_CASE("a loader with other batches goes on in the same order of images") {
  const auto order = [](const LoaderOptions& options, std::int64_t epoch) {
    std::vector<double> images;
    for (const Seen& batch : collect(options))
      if (batch.epoch == epoch) images.insert(images.end(), batch.targets.begin(), batch.targets.end());
    return images;
  };
  const std::vector<double> whole = order(training, 1);
  LoaderOptions other = training;
  other.batch_size = 3;
  other.first_epoch = 1;
  other.first_image = 10;
  const std::vector<double> rest = order(other, 1);
  REQUIRE(rest.size() == 12);  // of the 13 that are left
  CHECK(std::vector(rest.begin(), rest.begin() + 10) == std::vector(whole.begin() + 10, whole.end()));
  CHECK(order(other, 2).size() == 21);
  other.batch_size = 14;  // more than are left: the next epoch begins
  CHECK(order(other, 1).empty());
  CHECK(order(other, 2).size() == 14);
}

TEST_CASE("workers and depth do not change what comes") {
  const std::vector<Seen> one = collect(training);
  for (const auto& [workers, depth] : {std::pair{1, 1}, {2, 1}, {2, 3}, {5, 4}}) {
    LoaderOptions options = training;
    options.workers = workers;
    options.depth = depth;
    CHECK(collect(options) == one);
  }
  LoaderOptions reseeded = training;
  reseeded.seed = 8;
  CHECK(collect(reseeded) != one);
}

TEST_CASE("batches take their memory for data, and are their caller's alone") {
  const auto held = [] { return at(ledger(Device::cpu).live(), Purpose::data); };
  const std::int64_t before = held(), batch_bytes = 5 * (4 * 6 * 3 * 4 + 8);
  {
    LoaderOptions options = training;
    options.depth = 2;
    Loader loader(std::make_shared<SmallDataset>(23), {}, options);
    CHECK(held() - before == 2 * batch_bytes);
    CHECK(std::ranges::any_of(ledger(Device::cpu).holders(),
                              [](const Held& holder) { return holder.owner.op.text() == "loader"; }));
    CHECK(collect(loader, 7).size() == 7);
    CHECK(held() - before == 2 * batch_bytes);
    {
      const std::optional<Batch> batch = loader.next();
      CHECK(batch->images.unique());
      CHECK(held() - before == 3 * batch_bytes);
    }
    CHECK(held() - before == 2 * batch_bytes);

    std::vector<Batch> kept;  // a caller may keep batches: they stay as they were
    while (std::optional<Batch> batch = loader.next()) kept.push_back(*batch);
    const std::vector<Seen> whole = collect(LoaderOptions(training));
    REQUIRE(kept.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK(kept[i].targets.to_vector() == whole[8 + i].targets);
  }
  CHECK(held() == before);
}

TEST_CASE("an error of a worker reaches the caller at its batch") {
  for (const int workers : {1, 3}) {
    Loader loader(std::make_shared<SmallDataset>(20, 12), {}, {.batch_size = 5, .end_epoch = 1, .workers = workers});
    CHECK(loader.next()->first == 0);
    CHECK(loader.next()->first == 5);
    CHECK_THROWS_WITH_AS(loader.next(), "image 12 is damaged", Error);
    CHECK_THROWS_WITH_AS(loader.next(), "image 12 is damaged", Error);
  }
}

class SlowDataset final : public SmallDataset {
 public:
  using SmallDataset::SmallDataset;
  std::int64_t read(std::int64_t index, std::uint8_t* image) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return SmallDataset::read(index, image);
  }
};

TEST_CASE("a loader that is dropped does not finish its batches") {
  const auto begin = std::chrono::steady_clock::now();
  { const Loader loader(std::make_shared<SlowDataset>(100000), {}, {.batch_size = 50000, .workers = 2}); }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));  // two batches would take 100
}

TEST_CASE("a batch larger than the data set is the input's fault") {
  const auto dataset = std::make_shared<SmallDataset>(10);
  CHECK_THROWS_WITH_AS(Loader(dataset, {}, {.batch_size = 11, .drop_last = true}),
                       "train.batch_size: 11 is more than the 10 images of small", Error);
  CHECK_THROWS_AS(Loader(dataset, {}, {.batch_size = 0}), Error);
  CHECK(Loader(dataset, {}, {.batch_size = 11}).steps_per_epoch() == 1);
}

}  // namespace
}  // namespace lacuna
