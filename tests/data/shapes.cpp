#include "data/dataset.h"

#include "core/error.h"
#include "tests/data/read_image.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace lacuna {
namespace {

using Pixels = std::vector<std::uint8_t>;

Pixels image_of(const Dataset& dataset, std::int64_t index) { return read_image(dataset, index).pixels; }

// FNV-1a, 64 bits.
std::uint64_t hash_of(const Dataset& dataset, std::int64_t images) {
  std::uint64_t hash = 14695981039346656037U;
  for (std::int64_t i = 0; i < images; ++i)
    for (const std::uint8_t value : image_of(dataset, i)) hash = (hash ^ value) * 1099511628211U;
  return hash;
}

TEST_CASE("shapes: the same pictures on every machine and in every build") {
  CHECK(hash_of(*open_dataset("shapes", {}), 200) == 10359313348893294897U);
}

TEST_CASE("data sets: the label alone is that of the sample") {
  const auto shapes = open_dataset("shapes", {});
  for (const std::int64_t index : {0, 7, 12, 499}) CHECK(shapes->label(index) == read_image(*shapes, index).label);
  const auto tokens = open_dataset("random_tokens", {.lengths = {4}, .classes = 3});
  CHECK(tokens->label(5) < 3);
}

TEST_CASE("shapes: seed, split and index make another picture; the order of reading does not") {
  const auto train = open_dataset("shapes", {});
  const auto validation = open_dataset("shapes", {.split = Split::validation});
  const auto reseeded = open_dataset("shapes", {.seed = 2});
  std::set<std::string> pictures;
  const auto add = [&](const Dataset& dataset, std::int64_t index) {
    const Pixels pixels = image_of(dataset, index);
    pictures.insert({pixels.begin(), pixels.end()});
  };
  for (std::int64_t i = 0; i < 100; ++i) {
    add(*train, i);
    add(*validation, i);
    add(*reseeded, i);
  }
  CHECK(pictures.size() == 300);
  const Pixels tenth = image_of(*train, 10);
  image_of(*train, 3);
  CHECK(image_of(*train, 10) == tenth);
}

TEST_CASE("shapes: sizes are those asked for, classes balanced") {
  DatasetOptions options{.train_size = 230, .validation_size = 40};
  const auto train = open_dataset("shapes", options);
  CHECK(train->size() == 230);
  CHECK(train->info().classes.size() == 10);
  std::array<int, 10> counts{};
  for (std::int64_t i = 0; i < train->size(); ++i) ++counts.at(static_cast<std::size_t>(read_image(*train, i).label));
  for (const int count : counts) CHECK(count == 23);
  options.split = Split::validation;
  CHECK(open_dataset("shapes", options)->size() == 40);
  CHECK_THROWS_AS(read_image(*train, 230), Error);
}

TEST_CASE("shapes: mean and deviation are those of the data set's description, whatever the class") {
  const auto train = open_dataset("shapes", {});
  constexpr std::int64_t images = 3000;
  std::array<double, 3> sum{}, squares{};
  std::array<double, 10> brightness{};
  for (std::int64_t i = 0; i < images; ++i) {
    const Pixels pixels = image_of(*train, i);
    for (std::size_t k = 0; k < pixels.size(); ++k) {
      const double value = pixels[k] / 255.0;
      sum[k % 3] += value;
      squares[k % 3] += value * value;
      brightness[static_cast<std::size_t>(i % 10)] += 10 * value / static_cast<double>(pixels.size() * images);
    }
  }
  const double count = images * 1024.0;
  for (std::size_t c = 0; c < 3; ++c) {
    const double mean = sum[c] / count;
    CHECK(mean == doctest::Approx(train->info().mean[c]).epsilon(0.04));
    CHECK(std::sqrt(squares[c] / count - mean * mean) == doctest::Approx(train->info().deviation[c]).epsilon(0.04));
  }
  for (const double level : brightness) CHECK(std::abs(level - 0.31) < 0.05);
}

std::int64_t side_of(const DatasetInfo& info) { return field_of(info.fields, "images").shape[1]; }

TEST_CASE("shapes: they are drawn at any size within bounds, and at the nearest bound beyond") {
  for (const std::int64_t side : {8, 33, 100}) {
    const auto dataset = open_dataset("shapes", {.image_size = side});
    CHECK(side_of(dataset->info()) == side);
    const Pixels pixels = image_of(*dataset, 0);
    CHECK(*std::ranges::max_element(pixels) > *std::ranges::min_element(pixels));
  }
  CHECK(side_of(describe_dataset("shapes", {.image_size = 7})) == 8);
  CHECK(side_of(open_dataset("shapes", {.image_size = 100000})->info()) == 1024);
}

}  // namespace
}  // namespace lacuna
