// Mixup and CutMix against timm 1.0.31: expected values are printed by tests/data/make_mix_references.py.
#include "data/mix.h"

#include "core/error.h"
#include "data/loader.h"
#include "tests/data/small_dataset.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

constexpr CutBox box{0, 2, 1, 2};
constexpr double kept_by_box = 1 - 2.0 / 6;

Tensor images() {
  std::vector<float> values(std::size_t{4} * 2 * 3 * 2);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 32);
  return Tensor::from(std::span<const float>(values), {4, 2, 3, 2});
}

std::vector<double> mixed(const std::vector<SampleMix>& mixes) {
  const Tensor all = images();
  mix_images(all, mixes);
  return all.to_vector();
}

/// With a label smoothing of 0.1, as the loss has it.
std::vector<double> targets(const std::vector<SampleMix>& mixes) {
  const std::vector<std::int64_t> labels{2, 0, 1, 2};
  std::vector<double> values =
      mixed_labels(Tensor::from(std::span<const std::int64_t>(labels), {4}), 3, mixes).to_vector();
  for (double& value : values) value = 0.9 * value + 0.1 / 3;
  return values;
}

void check_near(const std::vector<double>& values, const std::vector<double>& expected) {
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == doctest::Approx(expected[i]).epsilon(2e-6));
}

TEST_CASE("mixing: boxes are timm's for the same share and centre") {
  CHECK(box_around(224, 224, 0.3, 10, 200) == CutBox{0, 104, 107, 224});
  CHECK(box_around(7, 5, 0.51, 3, 2) == CutBox{1, 5, 1, 4});
  CHECK(box_around(6, 6, 0, 0, 5) == CutBox{0, 3, 2, 6});
  CHECK(box_around(9, 8, 1, 4, 4).area() == 0);
}

TEST_CASE("mixing: images and targets are timm's for the same shares and boxes") {
  const std::vector<SampleMix> blend(4, {.share = 0.3}), cut(4, {.share = kept_by_box, .box = box});
  check_near(mixed(blend),
             {19.6, 4.2,  11.2, 18.2, 25.2, 22.6, 7.2,  14.2, 21.2, 28.2, 3.2, 10.2, 11.6, 18.6, 16,   23,
              7.6,  14.6, 21.6, 19,   3.6,  10.6, 17.6, 15,   16.4, 23.4, 8,   15,   12.4, 19.4, 26.4, 11,
              8.4,  15.4, 22.4, 7,    8.4,  5.8,  12.8, 19.8, 26.8, 11.4, 8.8, 15.8, 22.8, 29.8, 4.8,  11.8});
  check_near(targets(blend), {0.033333333, 0.033333333, 0.933333333, 0.303333333, 0.663333333, 0.033333333, 0.663333333,
                              0.303333333, 0.033333333, 0.033333333, 0.033333333, 0.933333333});
  CHECK(mixed(cut) == std::vector<double>{0,  7,  10, 17, 28, 3, 10, 17, 20, 27, 6, 13, 20, 27, 22, 29,
                                          16, 23, 30, 5,  0,  7, 26, 1,  8,  15, 2, 9,  4,  11, 18, 25,
                                          12, 19, 14, 21, 28, 3, 14, 21, 24, 31, 6, 13, 24, 31, 2,  9});
  check_near(targets(cut), {0.033333333, 0.033333333, 0.933333333, 0.633333333, 0.333333333, 0.033333333, 0.333333333,
                            0.633333333, 0.033333333, 0.033333333, 0.033333333, 0.933333333});

  const std::vector<SampleMix> each{{.share = 0.25}, {}, {.share = kept_by_box, .box = box}, {.share = 0.75}};
  CHECK(mixed(each) == std::vector<double>{21, 4,  11, 18, 25, 24, 7,  14, 21, 28, 3, 10, 20, 27, 2,  9,
                                           16, 23, 30, 5,  12, 19, 26, 1,  8,  15, 2, 9,  4,  11, 18, 25,
                                           12, 19, 14, 21, 21, 4,  11, 18, 25, 24, 7, 14, 21, 28, 3,  10});
  check_near(targets(each), {0.033333333, 0.033333333, 0.933333333, 0.933333333, 0.033333333, 0.033333333, 0.333333333,
                             0.633333333, 0.033333333, 0.033333333, 0.033333333, 0.933333333});

  const SampleMix cut_pair{.share = kept_by_box, .box = box};
  const std::vector<SampleMix> pairs{{.share = 0.25}, cut_pair, cut_pair, {.share = 0.25}};
  CHECK(mixed(pairs) == std::vector<double>{21, 4,  11, 18, 25, 24, 7,  14, 21, 28, 3, 10, 20, 27, 22, 29,
                                            16, 23, 30, 5,  0,  7,  26, 1,  8,  15, 2, 9,  4,  11, 18, 25,
                                            12, 19, 14, 21, 7,  6,  13, 20, 27, 10, 9, 16, 23, 30, 5,  12});
}

TEST_CASE("mixing: labels of several classes are mixed in the same shares") {
  const std::vector<float> labels{1, 1, 0, 0, 1, 1};
  const Tensor mixed = mixed_labels(Tensor::from(std::span<const float>(labels), {2, 3}), 3,
                                    std::vector<SampleMix>{{.share = 0.25}, {.share = 0.5}});
  CHECK(mixed.to_vector() == std::vector<double>{0.25, 1, 0.75, 0.5, 1, 0.5});
}

TEST_CASE("mixing: draws follow from seed, epoch and place, as their mode says") {
  const auto shares = [](const MixOptions& options, std::int64_t epoch, std::int64_t first, std::int64_t count) {
    std::vector<double> all;
    for (const SampleMix& mix : Mixing(options).draw(epoch, first, count, 32, 32)) all.push_back(mix.share);
    return all;
  };
  MixOptions options{.mixup = 0.8, .cutmix = 1, .mode = MixMode::element, .classes = 10, .seed = 5};
  const std::vector<double> eight = shares(options, 1, 8, 8);
  CHECK(std::set(eight.begin(), eight.end()).size() == 8);
  CHECK(shares(options, 1, 12, 4) == std::vector(eight.begin() + 4, eight.end()));
  CHECK(shares(options, 2, 8, 8) != eight);
  options.mode = MixMode::pair;
  const std::vector<double> pairs = shares(options, 1, 8, 8);
  CHECK(std::equal(pairs.begin(), pairs.begin() + 4, pairs.rbegin()));
  CHECK(std::set(pairs.begin(), pairs.end()).size() == 4);
  options.mode = MixMode::batch;
  const std::vector<double> one = shares(options, 1, 8, 8);
  CHECK(std::set(one.begin(), one.end()).size() == 1);

  options.off_epoch = 2;
  CHECK(shares(options, 1, 8, 8) == one);
  CHECK(shares(options, 2, 8, 8) == std::vector<double>(8, 1));
}

TEST_CASE("mixing: shares are of the Beta distribution, and each kind comes as often as it should") {
  const auto drawn = [](MixOptions options) {
    options.mode = MixMode::element;
    options.classes = 2;
    return Mixing(options).draw(0, 0, 4000, 64, 64);
  };
  const auto spread = [](const std::vector<SampleMix>& mixes) {  // variance around 1/2
    double sum = 0;
    for (const SampleMix& mix : mixes) sum += (mix.share - 0.5) * (mix.share - 0.5);
    return sum / static_cast<double>(mixes.size());
  };
  // Beta(a, a) has the variance 1 / (4 (2 a + 1)).
  CHECK(5.6 * spread(drawn({.mixup = 0.2})) == doctest::Approx(1).epsilon(0.02));
  CHECK(10.4 * spread(drawn({.mixup = 0.8})) == doctest::Approx(1).epsilon(0.03));
  CHECK(36 * spread(drawn({.mixup = 4})) == doctest::Approx(1).epsilon(0.04));

  const auto boxes = [&](const MixOptions& options) {
    const std::vector<SampleMix> all = drawn(options);
    return static_cast<double>(std::ranges::count_if(all, [](const SampleMix& mix) { return mix.box.has_value(); })) /
           4000;
  };
  CHECK(boxes({.mixup = 0.8, .cutmix = 1, .switch_probability = 0.25}) == doctest::Approx(0.25).epsilon(0.02));
  CHECK(boxes({.cutmix = 1, .probability = 0.5}) == doctest::Approx(0.5).epsilon(0.02));
  CHECK(boxes({.mixup = 0.8}) == 0);
  for (const SampleMix& mix : drawn({.cutmix_sides = {0.25, 0.5}})) {
    const std::int64_t rows = mix.box.value().bottom - mix.box->top, columns = mix.box->right - mix.box->left;
    CHECK((16 <= std::min(rows, columns) && std::max(rows, columns) < 32));
    CHECK(mix.share == 1 - static_cast<double>(rows * columns) / 4096);
  }
}

class TwoClasses final : public ImageDataset {
 public:
  TwoClasses()
      : ImageDataset({.name = "two",
                      .size = 24,
                      .fields = image_fields(4, 6, 3),
                      .classes = {"even", "odd"},
                      .mean = {0, 0, 0},
                      .deviation = {1, 1, 1}}) {}
  std::int64_t read_image(std::int64_t index, std::uint8_t* image) const override {
    for (std::int64_t i = 0; i < image_bytes(); ++i) image[i] = static_cast<std::uint8_t>(index * 31 + i);
    return index % 2;
  }
};

TEST_CASE("mixing: a loader gives the same mixed batches with any number of workers and from any batch on") {
  const auto batches = [](std::int64_t size) {
    const auto source = std::make_shared<TwoClasses>();
    const auto mixing = std::make_shared<const Mixing>(
        MixOptions{.mixup = 0.8, .cutmix = 1, .mode = MixMode::element, .classes = 2, .seed = 3});
    return Batches(shuffle(transform(source, image_transforms(source->info(), {}), 3), 3),
                   {.size = size, .drop_last = true, .mixing = mixing});
  };
  const auto seen = [&](const LoaderOptions& options) {
    Loader loader(batches(8), options);
    std::vector<std::pair<std::vector<double>, std::vector<double>>> all;
    while (const std::optional<Batch> batch = loader.next()) {
      CHECK((*batch)["labels"].shape() == Shape{8, 2});
      all.emplace_back((*batch)["images"].to_vector(), (*batch)["labels"].to_vector());
    }
    return all;
  };
  const auto all = seen({.end_epoch = 2});
  REQUIRE(all.size() == 6);
  CHECK(seen({.end_epoch = 2, .workers = 3}) == all);
  CHECK(seen({.first_epoch = 1, .first_sample = 8, .end_epoch = 2}) == std::vector(all.begin() + 4, all.end()));
  for (const auto& [images, labels] : all)
    for (std::size_t i = 0; i < labels.size(); i += 2) CHECK(labels[i] + labels[i + 1] == doctest::Approx(1));
  CHECK_THROWS_WITH_AS(batches(5), doctest::Contains("even"), Error);
}

}  // namespace
}  // namespace lacuna
