// Boxes on the host against torchvision: boxes.json, which make_boxes.py writes.
#include "ops/detection/boxes.h"

#include "core/error.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace lacuna {
namespace {

using Json = nlohmann::json;

Json cases(const char* name) {
  std::ifstream file(LACUNA_SOURCE_DIR "/tests/ops/boxes.json");
  return Json::parse(file).at(name);
}
Tensor floats(const Json& values, std::int64_t width) {
  const auto numbers = values.get<std::vector<float>>();
  const auto count = std::ssize(numbers);
  return Tensor::from(std::span<const float>(numbers), width > 1 ? Shape{count / width, width} : Shape{count});
}
void check_near(const Tensor& got, const Json& expected) {
  const std::vector<double> values = got.to_vector(), wanted = expected.get<std::vector<double>>();
  REQUIRE(values.size() == wanted.size());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == doctest::Approx(wanted[i]).epsilon(1e-5));
}

}  // namespace

TEST_CASE("boxes: anchors of maps in the order of torchvision") {
  for (const Json& one : cases("anchors")) {
    std::vector<MapSize> maps;
    std::vector<AnchorShapes> shapes;
    for (const Json& map : one.at("maps")) maps.push_back({map[0], map[1]});
    for (const Json& sizes : one.at("sizes")) shapes.push_back({sizes, one.at("ratios")});
    const Tensor anchors = make_anchors({one.at("image")[0], one.at("image")[1]}, maps, shapes);
    CHECK(anchors.to_vector() == one.at("anchors").get<std::vector<double>>());
  }
}

TEST_CASE("boxes: anchors are matched as by torchvision, and without objects all are background") {
  for (const Json& one : cases("matches")) {
    const MatchRule rule{one.at("low"), one.at("high"), one.at("best")};
    const Tensor anchors = floats(one.at("anchors"), 4);
    CHECK(match_anchors(anchors, floats(one.at("truth"), 4), rule) ==
          one.at("matches").get<std::vector<std::int64_t>>());
    CHECK(match_anchors(anchors, Tensor::zeros({0, 4}, DType::f32, Device::cpu), rule) ==
          std::vector<std::int64_t>(static_cast<std::size_t>(anchors.shape()[0]), -1));
    CHECK_THROWS_AS(match_anchors(anchors, Tensor::zeros({2, 3}, DType::f32, Device::cpu), rule), Error);
  }
}

TEST_CASE("boxes: default boxes of maps in the order of torchvision, and objects that claim their best one") {
  for (const Json& one : cases("defaults")) {
    std::vector<MapSize> maps;
    for (const Json& map : one.at("maps")) maps.push_back({map[0], map[1]});
    check_near(make_default_boxes({one.at("image")[0], one.at("image")[1]}, maps, 0.2, 0.95), one.at("boxes"));
  }
  const MatchRule rule{.background_below = 0.5, .object_from = 0.5, .best_anchors = false, .claims_best = true};
  for (const Json& one : cases("claimed"))
    CHECK(match_anchors(floats(one.at("anchors"), 4), floats(one.at("truth"), 4), rule) ==
          one.at("matches").get<std::vector<std::int64_t>>());
}

TEST_CASE("boxes: codes of boxes, and boxes of codes") {
  for (const Json& one : cases("codes")) {
    const BoxCoding coding{one.at("weights")};
    const Tensor anchors = floats(one.at("anchors"), 4);
    check_near(coding.encode(floats(one.at("boxes"), 4), anchors), one.at("encoded"));
    check_near(coding.decode(floats(one.at("codes"), 4), anchors), one.at("decoded"));
  }
}

TEST_CASE("boxes: the boxes that are left, alone and by class") {
  for (const Json& one : cases("left")) {
    const Tensor boxes = floats(one.at("boxes"), 4), scores = floats(one.at("scores"), 1);
    const auto labels = one.at("classes").get<std::vector<std::int64_t>>();
    const Tensor classes = Tensor::from(std::span<const std::int64_t>(labels), {std::ssize(labels)});
    CHECK(suppress(boxes, scores, {}, one.at("threshold")) == one.at("left").get<std::vector<std::int64_t>>());
    CHECK(suppress(boxes, scores, classes, one.at("threshold")) ==
          one.at("left_by_class").get<std::vector<std::int64_t>>());
  }
}

}  // namespace lacuna
