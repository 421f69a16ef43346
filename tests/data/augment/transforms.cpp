#include "core/error.h"
#include "data/augment/augment.h"
#include "data/augment/auto_augment.h"
#include "data/augment/color_jitter.h"
#include "data/augment/random_erasing.h"
#include "data/loader.h"
#include "tests/data/small_dataset.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace lacuna::augment {
namespace {

using Values = std::vector<double>;

const std::vector<float> half{0.5F, 0.5F, 0.5F};

Tensor image_of(std::int64_t height, std::int64_t width, std::int64_t channels,
                const std::function<int(std::int64_t)>& value) {
  Tensor image = Tensor::empty({height, width, channels}, DType::u8, Device::cpu);
  for (std::int64_t i = 0; i < image.count(); ++i) image.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(value(i));
  return image;
}

Tensor colorful(std::int64_t height = 8, std::int64_t width = 9) {
  return image_of(height, width, 3, [](std::int64_t i) { return static_cast<int>(i * i * 7 + i * 41); });
}

Values changed(const Transform& transform, const Tensor& image, SampleRandom random) {
  Sample sample;
  sample.begin(0);
  sample.set("images", image.clone());
  SampleImage view(sample, "images");
  transform.apply(view, random);
  CHECK(sample["images"].shape() == image.shape());
  return sample["images"].to_vector();
}

Values changed(std::string_view policy, const Tensor& image, const SampleRandom& random) {
  return changed(*make_auto_augment(parse_policy(policy), {.fill = {128, 128, 128}}), image, random);
}

/// A part of `count` samples for which `holds`.
double share_of(std::int64_t count, const std::function<bool(SampleRandom)>& holds) {
  std::int64_t number = 0;
  for (std::int64_t i = 0; i < count; ++i) number += holds({1, 0, i}) ? 1 : 0;
  return static_cast<double>(number) / static_cast<double>(count);
}

TEST_CASE("magnitudes mean what they mean to timm") {
  const nlohmann::json references =
      nlohmann::json::parse(std::ifstream(LACUNA_SOURCE_DIR "/tests/data/augment/references.json"));
  REQUIRE(!references["levels"].empty());
  for (const nlohmann::json& one : references["levels"]) {
    CAPTURE(one.dump());
    const Operation& found = operation(one["operation"].get<std::string>());
    REQUIRE((found.argument != nullptr));
    const double expected = one["argument"], magnitude = one["magnitude"];
    CHECK(found.argument(magnitude, 1, {}) == expected);
    if (magnitude > 0) CHECK(found.draws_sign == (found.argument(magnitude, -1, {}) != expected));
  }
}

TEST_CASE("timm's strings are read") {
  const Policy policy = parse_policy("rand-m9-mstd0.5-inc1");
  CHECK(policy.layers == 2);
  CHECK(policy.steps.size() == 15);
  CHECK(policy.steps[4].operation->name == "PosterizeIncreasing");
  CHECK(policy.steps[0].magnitude == 9);
  CHECK(policy.steps[0].deviation == 0.5);
  CHECK(policy.steps[0].probability == 0.5);
  CHECK(policy.steps[0].highest == 10);
  CHECK(parse_policy("rand-m9-inc0").steps[4].operation->name == "Posterize");
  CHECK(std::isinf(parse_policy("rand-n1-mstd101-mmax31-p1").steps[0].deviation));
  CHECK(parse_policy("rand-tweights").weights.size() == 15);
  CHECK(parse_policy("rand-t3a").keeps_color_jitter);
  CHECK(parse_policy("3a").chains.size() == 3);
  CHECK(parse_policy("original-mstd0.5").chains.size() == 25);
  CHECK(parse_policy("originalr").chains[0][0].operation->name == "PosterizeIncreasing");
  CHECK(parse_policy("v0").chains[12][0].operation->name == "Posterize");
  CHECK(parse_policy("v0r").chains[12][0].operation->name == "PosterizeIncreasing");
  CHECK(parse_policy("augmix-m5-w4-d2").depth == 2);
}

TEST_CASE("what timm ignores or fails on in a string is the input's fault") {
  for (const char* text : {"",
                           "rand-",
                           "random",
                           "rand-m",
                           "rand-m9.5",
                           "rand-mx",
                           "rand-foo",
                           "rand-w0",
                           "rand-m9-m8",
                           "rand-tfoo",
                           "rand-p2",
                           "rand-n0",
                           "rand-n99",
                           "rand-n16-tweights",
                           "rand-mstd1e9",
                           "rand-m9-",
                           "3a-m5",
                           "v1",
                           "augmix-w99",
                           "rand-m9 ",
                           "rand-mstdnan",
                           "rand-inc2"}) {
    CAPTURE(text);
    try {
      parse_policy(text);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::input);
    }
  }
}

TEST_CASE("draws are those of seed, epoch, sample and copy") {
  const Tensor image = colorful();
  for (const char* policy : {"rand-m9-mstd0.5-inc1-p1", "augmix-m5", "augmix-b1", "original-mstd1"}) {
    CAPTURE(policy);
    const auto differ = [&](auto random) {
      int different = 0;
      for (std::int64_t i = 0; i < 50; ++i)
        different += changed(policy, image, SampleRandom(1, 2, i)) != changed(policy, image, random(i)) ? 1 : 0;
      return different;
    };
    CHECK(differ([](std::int64_t i) { return SampleRandom(1, 2, i); }) == 0);
    CHECK(differ([](std::int64_t i) { return SampleRandom(2, 2, i); }) > 25);
    CHECK(differ([](std::int64_t i) { return SampleRandom(1, 3, i); }) > 25);
    CHECK(differ([](std::int64_t i) { return SampleRandom(1, 2, i + 50); }) > 25);
    CHECK(differ([](std::int64_t i) { return SampleRandom(1, 2, i, 1); }) > 25);
  }
}

TEST_CASE("an operation is applied with its probability") {
  const Tensor image = colorful();
  const Values before = image.to_vector();
  const auto same = [&](std::string_view policy) {
    return share_of(400, [&](const SampleRandom& random) { return changed(policy, image, random) == before; });
  };
  CHECK(same("rand-p0") == 1);
  CHECK(same("rand-m9-n1-p0.5") == doctest::Approx(0.5).epsilon(0.2));
  CHECK(same("rand-m9-n2-p0.5") == doctest::Approx(0.25).epsilon(0.3));
}

TEST_CASE("a magnitude is normal around the one asked for and held within its bounds") {
  // The brightness of a pixel of 200 says what magnitude was drawn: 200 · (0.18 m + 0.1), m up to 5 being told apart.
  const Tensor image = image_of(1, 1, 1, [](std::int64_t) { return 200; });
  const auto magnitudes = [&](double magnitude, double deviation) {
    Policy policy{.steps = {{.operation = &operation("Brightness"),
                             .probability = 1,
                             .magnitude = magnitude,
                             .deviation = deviation,
                             .highest = 5}},
                  .layers = 1};
    const auto transform = make_auto_augment(policy, {});
    Values drawn;
    for (std::int64_t i = 0; i < 500; ++i)
      drawn.push_back((changed(*transform, image, {3, 0, i})[0] / 200 - 0.1) / 0.18);
    std::ranges::sort(drawn);
    return drawn;
  };
  const Values fixed = magnitudes(3, 0);
  CHECK(fixed.front() == fixed.back());
  CHECK(fixed.front() == doctest::Approx(3).epsilon(0.02));
  const Values normal = magnitudes(3, 0.5);
  CHECK(normal[250] == doctest::Approx(3).epsilon(0.05));
  CHECK(normal[420] - normal[80] == doctest::Approx(1).epsilon(0.2));  // two deviations
  const Values held = magnitudes(4.9, 3);
  CHECK(held.back() == doctest::Approx(5).epsilon(0.02));
  CHECK(held.front() == doctest::Approx(0).scale(1).epsilon(0.05));
  const Values uniform = magnitudes(4, std::numeric_limits<double>::infinity());
  CHECK(uniform[125] == doctest::Approx(1).epsilon(0.2));
  CHECK(uniform[375] == doctest::Approx(3).epsilon(0.1));
}

TEST_CASE("weighted operations are taken once each, the heavier one sooner") {
  const Step all{.probability = 1, .magnitude = 10};
  Policy policy{.steps = {all, all}, .weights = {5, 1}, .layers = 2};
  policy.steps[0].operation = &operation("SolarizeAdd");
  policy.steps[1].operation = &operation("Invert");
  const auto transform = make_auto_augment(policy, {});
  const Tensor image = image_of(1, 1, 1, [](std::int64_t) { return 10; });
  const double sooner = share_of(600, [&](const SampleRandom& random) {
    const double value = changed(*transform, image, random)[0];
    CHECK((value == 135 || value == 245));  // 10 + 110 inverted, or 10 inverted, to which nothing is added
    return value == 135;
  });
  CHECK(sooner == doctest::Approx(5.0 / 6).epsilon(0.1));
}

TEST_CASE("3-Augment solarizes, greys or blurs, one third each") {
  const Tensor image = colorful();
  Values solarized = image.to_vector();
  for (double& value : solarized) value = value < 128 ? value : 255 - value;
  const auto is_grey = [](const Values& values) {
    for (std::size_t i = 0; i < values.size(); i += 3)
      if (values[i] != values[i + 1] || values[i] != values[i + 2]) return false;
    return true;
  };
  const auto share = [&](auto holds) {
    return share_of(600, [&](const SampleRandom& random) { return holds(changed("3a", image, random)); });
  };
  CHECK(share([&](const Values& values) { return values == solarized; }) == doctest::Approx(1.0 / 3).epsilon(0.2));
  CHECK(share(is_grey) == doctest::Approx(1.0 / 3).epsilon(0.2));
}

TEST_CASE("AugMix of operations that change nothing gives the image up to truncation") {
  const Step still{.operation = &operation("Brightness"), .probability = 1, .magnitude = 5};
  const Tensor image = colorful();
  const Values before = image.to_vector();
  for (const bool blends_each : {false, true}) {
    Policy policy{.kind = Policy::Kind::mix, .steps = {still}, .layers = 3, .blends_each = blends_each};
    const Values after = changed(*make_auto_augment(policy, {}), image, {1, 0, 7});
    for (std::size_t i = 0; i < after.size(); ++i) CHECK(std::abs(after[i] - before[i]) <= 1);
  }
}

TEST_CASE("every operation takes images of one channel and of one pixel") {
  const auto value = [](std::int64_t at) { return static_cast<int>(at * 90); };
  for (const std::int64_t channels : {1, 3})
    for (std::int64_t i = 0; i < 200; ++i)
      for (const auto& [policy, image] : {std::pair{"rand-m9-mstd2-n4-p1-inc1", image_of(1, 1, channels, value)},
                                          {"rand-m9-mstd2-n4-p1", image_of(3, 2, channels, value)},
                                          {"rand-n3-p1-t3aw", image_of(2, 5, channels, value)}}) {
        const Values once = changed(policy, image, {1, 0, i});
        CHECK(once.size() == image.to_vector().size());
        CHECK(once == changed(policy, image, {1, 0, i}));
      }
}

TEST_CASE("gamma and beta numbers have their means and deviations") {
  for (const double shape : {0.2, 1.0, 3.5}) {
    double sum = 0, squares = 0, beta = 0;
    constexpr int count = 4000;
    for (std::int64_t i = 0; i < count; ++i) {
      SampleRandom random(5, 0, i);
      const double x = random.gamma(shape);
      sum += x;
      squares += x * x;
      const double share = random.beta(shape, 1);
      CHECK((share >= 0 && share <= 1));
      beta += share;
    }
    CHECK(sum / count == doctest::Approx(shape).epsilon(0.1));
    CHECK(squares / count - sum / count * sum / count == doctest::Approx(shape).epsilon(0.2));
    CHECK(beta / count == doctest::Approx(shape / (shape + 1)).epsilon(0.05));
  }
}

TEST_CASE("colour jitter stays within its range and reaches its ends") {
  const Tensor image = image_of(1, 1, 3, [](std::int64_t) { return 100; });
  double low = 255, high = 0;
  for (std::int64_t i = 0; i < 500; ++i) {
    const double value = changed(ColorJitter({0.4, 0, 0}, 1), image, {1, 0, i})[0];
    low = std::min(low, value);
    high = std::max(high, value);
  }
  CHECK((low >= 60 && low < 65));
  CHECK((high <= 140 && high > 135));
  CHECK(share_of(400, [&](const SampleRandom& random) {
          return changed(ColorJitter({0.4}, 0.3), colorful(), random) != colorful().to_vector();
        }) == doctest::Approx(0.3).epsilon(0.25));
  for (const std::vector<double>& wrong :
       std::vector<std::vector<double>>{{}, {1, 1}, {0, 0, 0, 0.6}, {-1}, {1, 1, 1, 0, 0}})
    CHECK_THROWS_AS(ColorJitter(wrong, 1), Error);
}

TEST_CASE("erasing overwrites a rectangle, with 0, a colour or noise") {
  constexpr std::int64_t height = 40, width = 30;
  const Tensor image = Tensor::empty({height, width, 3}, DType::f32, Device::cpu);
  image.fill(7);
  const auto erased = [&](Erasing how, std::int64_t most, SampleRandom random) {
    return changed(RandomErasing(1, how, most), image, random);
  };
  double sum = 0, squares = 0, count = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    const Values zeros = erased(Erasing::constant, 1, {1, 0, i});
    const auto area = static_cast<double>(std::ranges::count(zeros, 0.0)) / 3;
    CHECK(std::ranges::count(zeros, 7.0) + std::ranges::count(zeros, 0.0) == std::ssize(zeros));
    CHECK(area >= 0.015 * height * width);
    CHECK(area <= 0.36 * height * width);
    const Values color = erased(Erasing::color, 1, {1, 0, i});
    std::set<Values> colors;
    for (std::size_t at = 0; at < color.size(); at += 3) colors.insert({color[at], color[at + 1], color[at + 2]});
    CHECK(colors.size() == 2);
    for (const double value : erased(Erasing::noise, 1, {1, 0, i}))
      if (value != 7) {
        sum += value;
        squares += value * value;
        ++count;
      }
    CHECK(erased(Erasing::noise, 3, {1, 0, i}) == erased(Erasing::noise, 3, {1, 0, i}));
    CHECK(erased(Erasing::noise, 3, {1, 0, i}) != erased(Erasing::noise, 3, {1, 0, i, 1}));
  }
  CHECK(sum / count == doctest::Approx(0).scale(1).epsilon(0.03));
  CHECK(squares / count == doctest::Approx(1).epsilon(0.03));
  CHECK(share_of(400, [&](const SampleRandom& random) {
          return changed(RandomErasing(0.25, Erasing::constant, 1), image, random) != image.to_vector();
        }) == doctest::Approx(0.25).epsilon(0.25));
}

TEST_CASE("settings that contradict each other or have no effect are the input's fault") {
  const auto refused = [](const AugmentOptions& options) {
    try {
      check(options);
      return false;
    } catch (const Error& error) {
      return error.fault() == Fault::input;
    }
  };
  const std::vector<double> some{0.3};
  CHECK(refused({.auto_augment = "rand-m9", .color_jitter = some}));
  CHECK(!refused({.auto_augment = "rand-m9", .color_jitter = some, .force_color_jitter = true}));
  CHECK(!refused({.auto_augment = "3a", .color_jitter = some}));
  CHECK(!refused({.color_jitter = some, .color_jitter_probability = 0.8}));
  CHECK(refused({.force_color_jitter = true}));
  CHECK(refused({.color_jitter = some, .force_color_jitter = true}));
  CHECK(refused({.color_jitter_probability = 0.8}));
  CHECK(refused({.erase_mode = "const"}));
  CHECK(refused({.erase_count = 2}));
  CHECK(refused({.erase_probability = 0.5, .erase_mode = "noise"}));
  CHECK(refused({.erase_probability = 2}));
  CHECK(refused({.auto_augment = "rand-x1"}));
}

TEST_CASE("a whole chain goes with every number of workers, and each copy of a sample looks different") {
  const auto source = std::make_shared<SmallDataset>(10);
  const AugmentOptions pixels{.auto_augment = "rand-m9-mstd0.5-inc1",
                              .color_jitter = {0.4, 0.4, 0.4, 0.1},
                              .force_color_jitter = true,
                              .grayscale_probability = 0.1,
                              .blur_probability = 0.1,
                              .erase_probability = 0.5};
  const Transforms transforms = image_transforms(source->info(), {.pixels = pixels});
  const auto read = [&](int workers) {
    Loader loader(Batches(repeat(shuffle(transform(source, transforms, 1), 1), 3), {.size = 5}),
                  {.end_epoch = 2, .workers = workers});
    std::vector<Values> batches;
    while (const auto batch = loader.next()) {
      batches.push_back((*batch)["images"].to_vector());
      batches.push_back((*batch)["labels"].to_vector());
    }
    return batches;
  };
  const std::vector<Values> one = read(1);
  CHECK(one == read(3));
  REQUIRE(one.size() == 8);
  const Values &images_read = one[0], &labels = one[1];
  CHECK((labels[0] == labels[1] && labels[1] == labels[2] && labels[2] != labels[3]));
  const auto size = static_cast<std::ptrdiff_t>(images_read.size() / 5);
  const auto image = [&](std::ptrdiff_t i) {
    return Values(images_read.begin() + i * size, images_read.begin() + (i + 1) * size);
  };
  CHECK(std::set<Values>{image(0), image(1), image(2)}.size() == 3);
}

TEST_CASE("repeated samples make an epoch of timm's length") {
  const auto repeated = [](std::int64_t size) { return repeat(std::make_shared<SmallDataset>(size), 3)->size(); };
  CHECK(repeated(10) == 10);
  CHECK(repeated(255) == 255);
  CHECK(repeated(256) == 256);
  CHECK(repeated(700) == 512);
}

TEST_CASE("pixel operations refuse what they cannot take") {
  const SampleField two_channels{.name = "images", .kind = FieldKind::pixels, .dtype = DType::u8, .shape = {4, 4, 2}};
  const AugmentOptions pixels{
      .auto_augment = "3a", .color_jitter = {0.3}, .grayscale_probability = 0.5, .blur_probability = 0.5};
  const Transforms transforms = before_normalization(pixels, half, Interpolation::random);
  CHECK(transforms.size() == 4);
  for (const auto& transform : transforms) CHECK_THROWS_AS(transform->describe(two_channels), Error);
}

}  // namespace
}  // namespace lacuna::augment
