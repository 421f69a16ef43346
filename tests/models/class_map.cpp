#include "models/segmentation/class_map.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace lacuna {
namespace {

using Values = std::vector<std::int64_t>;

Values as_values(const Tensor& classes) {
  const std::vector<double> numbers = classes.to_vector();
  return {numbers.begin(), numbers.end()};
}

TEST_CASE("class_map: whole images and windows have the classes that PyTorch finds") {
  const nlohmann::json cases = nlohmann::json::parse(std::ifstream(LACUNA_SOURCE_DIR "/tests/models/class_map.json"));
  REQUIRE(cases.size() > 4);
  for (const nlohmann::json& one : cases) {
    const Values image = one["image"];
    const std::int64_t model = one["model"], grid = one["grid"];
    const Showing how = one["how"] == "squash" ? Showing::squash : Showing::windows;
    const Shown shown({image[0], image[1]}, {model, model}, how);
    REQUIRE(std::ssize(shown.windows) == one["windows"].get<std::int64_t>());
    const std::vector<double> values = one["logits"];
    const Tensor logits = Tensor::from(std::span<const double>(values), {std::ssize(shown.windows), grid, grid, 5},
                                       DType::f32, Device::cpu);
    const Tensor classes = class_map(shown, logits);
    CHECK(classes.shape() == Shape{image[0], image[1]});
    const Values ours = as_values(classes), theirs = one["classes"];
    std::int64_t different = 0;
    for (std::size_t i = 0; i < theirs.size(); ++i) different += ours[i] != theirs[i] ? 1 : 0;
    CHECK(different == 0);
  }
}

TEST_CASE("class_map: an image that is padded to fit has the classes of its part") {
  // 40 × 20 pixels become 16 × 8, at the left of the model's 16 × 16, whose right half is of class 1.
  const Shown shown({40, 20}, 16, Showing::fit);
  CHECK(shown.resized == ImageSize(16, 8));
  std::vector<double> logits;
  for (int i = 0; i < 16 * 16; ++i)
    for (int c = 0; c < 2; ++c) logits.push_back(c == (i % 16 < 8 ? 0 : 1) ? 1 : 0);
  const Tensor classes =
      class_map(shown, Tensor::from(std::span<const double>(logits), {1, 16, 16, 2}, DType::f32, Device::cpu));
  CHECK(as_values(classes) == Values(40 * 20, 0));
}

TEST_CASE("class_map: more than 256 classes") {
  const Shown shown({3, 3}, 2, Showing::squash);
  std::vector<double> logits(300, 0);
  logits[299] = 1;
  const Tensor classes =
      class_map(shown, Tensor::from(std::span<const double>(logits), {1, 1, 1, 300}, DType::f32, Device::cpu));
  CHECK(classes.dtype() == DType::i32);
  CHECK(as_values(classes) == Values(9, 299));
}

}  // namespace
}  // namespace lacuna
