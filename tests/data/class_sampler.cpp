#include "data/class_sampler.h"

#include "core/error.h"
#include "data/loader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

namespace lacuna {
namespace {

/// 90 samples: of every ten, eight have class 0, two class 1; no sample has class 2.
class Uneven final : public ImageDataset {
 public:
  Uneven()
      : ImageDataset({.name = "uneven",
                      .size = 90,
                      .fields = image_fields(6, 6, 1),
                      .classes = {"a", "b", "c"},
                      .mean = {0},
                      .deviation = {1}}) {}
  std::int64_t read_image(std::int64_t index, std::uint8_t* image) const override {
    for (std::int64_t i = 0; i < image_bytes(); ++i) image[i] = static_cast<std::uint8_t>(index + i);
    return index % 10 < 8 ? 0 : 1;
  }
};

std::vector<std::int64_t> labels_of(const DatasetPtr& samples, std::int64_t epochs, int workers = 1) {
  Loader loader(Batches(samples, {.size = 9}), {.end_epoch = epochs, .workers = workers});
  std::vector<std::int64_t> labels;
  while (const std::optional<Batch> batch = loader.next())
    for (const double label : (*batch)["labels"].to_vector()) labels.push_back(static_cast<std::int64_t>(label));
  return labels;
}

TEST_CASE("classes are counted, and drawn as often as their weights say") {
  const auto uneven = std::make_shared<Uneven>();
  CHECK(count_classes(*uneven, 3) == std::vector<std::int64_t>{72, 18, 0});
  CHECK_THROWS_AS(count_classes(*uneven, 1), Error);

  const auto share_of_b = [](const std::vector<std::int64_t>& labels) {
    return static_cast<double>(std::ranges::count(labels, 1)) / static_cast<double>(labels.size());
  };
  CHECK(share_of_b(labels_of(sample_balanced(uneven, 3, 1), 20)) == doctest::Approx(0.5).epsilon(0.03));
  // 18 · 12 against 72 · 1
  const std::vector<double> weights{1, 12, 5};
  CHECK(share_of_b(labels_of(sample_by_weight(uneven, weights, 1), 20)) == doctest::Approx(0.75).epsilon(0.03));
  CHECK(share_of_b(labels_of(sample_by_weight(uneven, std::vector<double>{0, 1, 0}, 1), 1)) == 1);
  CHECK_THROWS_AS(sample_by_weight(uneven, std::vector<double>{0, 0, 1}, 1), Error);
}

TEST_CASE("samples by class: a function of seed, epoch and place") {
  const auto uneven = std::make_shared<Uneven>();
  const std::vector<std::int64_t> two = labels_of(sample_balanced(uneven, 3, 1), 2);
  CHECK(labels_of(sample_balanced(uneven, 3, 1), 2, 3) == two);
  CHECK(labels_of(sample_balanced(uneven, 3, 2), 2) != two);
  CHECK(std::vector(two.begin(), two.begin() + 90) != std::vector(two.begin() + 90, two.end()));
}

TEST_CASE("samples by class: one that comes again is augmented in another way") {
  const auto uneven = std::make_shared<Uneven>();
  const TransformOptions options{.augment = "crop_flip"};
  Loader loader(Batches(sample_by_weight(transform(take(uneven, 1), image_transforms(uneven->info(), options), 1),
                                         std::vector<double>{1}, 1),
                        {.size = 1}),
                {.end_epoch = 1});
  const std::vector<double> first = (*loader.next())["images"].to_vector();
  const auto repeated = [&](DatasetPtr one) {
    std::set<std::vector<double>> all;
    for (std::int64_t copy = 0; copy < 8; ++copy) {
      Sample sample;
      sample.begin(0);
      sample.copy = copy;
      one->read(0, sample);
      all.insert(sample["images"].to_vector());
    }
    return all;
  };
  const auto all = repeated(transform(take(uneven, 1), image_transforms(uneven->info(), options), 1));
  CHECK(all.size() > 4);
  CHECK(all.contains(first));
}

TEST_CASE("a sample that is drawn several times looks different each time, also where places are repeated") {
  const auto uneven = std::make_shared<Uneven>();
  const Transforms crops = image_transforms(uneven->info(), {.augment = "crop_flip", .crop_padding = 4});
  const DatasetPtr samples = repeat(sample_balanced(transform(uneven, crops, 1), 3, 1), 3);
  Loader loader(Batches(samples, {.size = 90}), {.end_epoch = 1});
  const std::vector<double> values = (*loader.next())["images"].to_vector();
  std::set<std::vector<double>> different;
  for (std::size_t i = 0; i < 90; ++i)
    different.insert({values.begin() + static_cast<std::ptrdiff_t>(36 * i),
                      values.begin() + static_cast<std::ptrdiff_t>(36 * (i + 1))});
  CHECK(different.size() > 60);  // 30 without
}

}  // namespace
}  // namespace lacuna
