// Average precision against pycocotools: average_precision.json, which make_average_precision.py writes.
#include "models/tasks/detection/average_precision.h"

#include "core/json.h"
#include "data/files/input_file.h"

#include <doctest/doctest.h>

namespace lacuna {
namespace {

/// The boxes of each image, by its id.
struct Images {
  std::map<std::int64_t, std::pair<std::vector<TrueBox>, std::vector<FoundBox>>> images;

  explicit Images(const nlohmann::json& from) {
    for (const nlohmann::json& one : from.at("truth"))
      images[one.at("image_id")].first.push_back({.category = one.at("category_id"),
                                                  .box = one.at("bbox"),
                                                  .area = one.at("area"),
                                                  .crowd = one.at("iscrowd") == 1});
    for (const nlohmann::json& one : from.at("found"))
      images[one.at("image_id")].second.push_back(
          {.category = one.at("category_id"), .box = one.at("bbox"), .score = one.at("score")});
  }
  DetectionFigures figures() const {
    AveragePrecision counted;
    for (const auto& [id, boxes] : images) counted.add(boxes.first, boxes.second);
    return counted.figures();
  }
};

}  // namespace

TEST_CASE("average precision: the figures of pycocotools") {
  const nlohmann::json cases = parse_json(read_text(LACUNA_SOURCE_DIR "/tests/models/average_precision.json", 1 << 24),
                                          "average_precision.json");
  for (const nlohmann::json& one : cases) {
    const DetectionFigures made = Images(one).figures();
    const std::vector<double> figures{made.ap,   made.ap_50, made.ap_75,  made.ap_small, made.ap_medium, made.ap_large,
                                      made.ar_1, made.ar_10, made.ar_100, made.ar_small, made.ar_medium, made.ar_large};
    for (std::size_t i = 0; i < figures.size(); ++i) {
      CAPTURE(i);
      CHECK(figures[i] == doctest::Approx(one.at("figures")[i].get<double>()).epsilon(1e-12));
    }
    for (const auto& [category, expected] : one.at("by_category").items())
      if (const auto found = made.ap_of_category.find(std::stoll(category)); found != made.ap_of_category.end())
        CHECK(found->second == doctest::Approx(expected.get<double>()).epsilon(1e-12));
      else
        CHECK(expected == -1);
  }
}

TEST_CASE("average precision: half of the boxes without a mistake") {
  const std::vector<TrueBox> truth{{.category = 1, .box = {0, 0, 50, 50}, .area = 2500},
                                   {.category = 1, .box = {100, 0, 50, 50}, .area = 2500}};
  const std::vector<FoundBox> found{{.category = 1, .box = {0, 0, 50, 50}, .score = 0.9}};
  AveragePrecision counted;
  counted.add(truth, found);
  CHECK(counted.figures().ap == doctest::Approx(51.0 / 101));
  CHECK(counted.figures().ar_100 == 0.5);
  CHECK(counted.figures().ap_small == -1);
}

TEST_CASE("average precision: boxes of an image without objects count, those of a difficult object do not") {
  const std::vector<TrueBox> truth{{.category = 1, .box = {0, 0, 50, 50}, .area = 2500},
                                   {.category = 1, .box = {100, 0, 50, 50}, .area = 2500, .ignored = true}};
  const std::vector<FoundBox> found{{.category = 1, .box = {0, 0, 50, 50}, .score = 0.5},
                                    {.category = 1, .box = {100, 0, 50, 50}, .score = 0.9}};
  AveragePrecision counted;
  counted.add(truth, found);
  CHECK(counted.figures().ap == doctest::Approx(1));
  counted.add({}, std::vector<FoundBox>{{.category = 1, .box = {0, 0, 9, 9}, .score = 0.8}});
  CHECK(counted.figures().ap == doctest::Approx(0.5));
}

}  // namespace lacuna
