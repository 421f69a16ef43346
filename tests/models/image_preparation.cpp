// The presets' image preparation against timm 1.0.31 (image_preparations.txt, written by make_image_preparations.py).
#include "models/registry.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace lacuna {

TEST_CASE("models: presets want the images that timm's default weights want") {
  std::ifstream file(LACUNA_SOURCE_DIR "/tests/models/image_preparations.txt");
  std::vector<std::string> known;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    ImagePreparation timm{.mean = std::vector<double>(3), .std = std::vector<double>(3)};
    std::string name;
    line >> name >> timm.crop_pct >> timm.crop_mode >> timm.interpolation;
    for (std::vector<double>* const values : {&timm.mean, &timm.std})
      for (double& value : *values) line >> value;
    REQUIRE(line);
    INFO(name);
    const ImagePreparation& ours = model_presets().get(name).images;
    CHECK(ours.crop_pct == timm.crop_pct);
    CHECK(ours.crop_mode == timm.crop_mode);
    CHECK(ours.interpolation == timm.interpolation);
    CHECK(ours.mean == timm.mean);
    CHECK(ours.std == timm.std);
    known.push_back(name);
  }
  CHECK(known.size() > 70);
  // A preset that timm does not have has its data set's, except torchvision's SSDLite: -1 to 1.
  const std::string ssdlite = "ssdlite320_mobilenet_v3_large";
  CHECK(model_presets().get(ssdlite).images.mean == std::vector<double>(3, 0.5));
  CHECK(model_presets().get(ssdlite).images.std == std::vector<double>(3, 0.5));
  known.push_back(ssdlite);
  for (const std::string& name : model_names())
    if (std::ranges::find(known, name) == known.end()) CHECK(model_presets().get(name).images.mean.empty());
}

}  // namespace lacuna
