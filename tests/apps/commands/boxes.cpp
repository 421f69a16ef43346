// Own pictures with boxes, from the folder to boxes in the pictures' own pixels, and what is refused before a run.
#include "data/images/image_reader.h"
#include "models/io/weights.h"
#include "models/registry.h"
#include "tests/apps/commands/command_run.h"
#include "tests/apps/refusals.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

using namespace lacuna::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* model =
    "model: {name: retinanet, image_size: 32, fpn_channels: 4, frozen_norm: true, anchor_sizes: [4, 8, 16, 24, 32],\n"
    "        backbone: {name: resnet, block: basic, layers: [1, 1, 1, 1], channels: [4, 4, 4, 6], stem_width: 4}}\n"
    "data: {path: p}\n"
    "train: {epochs: 1, batch_size: 2, threads: 1}\n"
    "output: {dir: r}\n";

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  write_file(file, text);
}
void put_image(const fs::path& file, int width, int height) {
  put(file, fmt::format("P5 {} {} 255\n", width, height) + std::string(static_cast<std::size_t>(width * height), 'x'));
}

/// Ids with gaps, one image without objects, a crowd, and one image for evaluation; `boxes`: the one of image 4.
void put_coco(const TemporaryFolder& folder, const std::string& box = "[10, 2, 20, 10]") {
  const auto list = [](const std::string& images, const std::string& annotations) {
    return fmt::format(R"({{"images": [{}], "annotations": [{}],
                           "categories": [{{"id": 90, "name": "cat"}}, {{"id": 3, "name": "dog"}}]}})",
                       images, annotations);
  };
  for (const char* const name : {"p/train/a.pgm", "p/train/b.pgm", "p/val/c.pgm"}) put_image(folder / name, 40, 20);
  put(folder / "p/annotations/train.json",
      list(R"({"id": 4, "file_name": "a.pgm", "width": 40, "height": 20},
              {"id": 9, "file_name": "b.pgm", "width": 40, "height": 20})",
           fmt::format(R"({{"id": 0, "image_id": 4, "category_id": 90, "bbox": {}}})", box)));
  put(folder / "p/annotations/val.json", list(R"({"id": 1, "file_name": "c.pgm", "width": 40, "height": 20})",
                                              R"({"id": 0, "image_id": 1, "category_id": 3, "bbox": [4, 4, 12, 12]},
              {"id": 1, "image_id": 1, "category_id": 90, "bbox": [0, 0, 40, 20], "iscrowd": 1})"));
}

}  // namespace

TEST_CASE("boxes: a path alone is trained on, evaluated by class, shown on the page and predicted in its own pixels") {
  const TemporaryFolder folder(model);
  put_coco(folder);
  check_says(run(folder, {"train", "-c", "c.yaml"}).out, "box_folder");
  const nlohmann::json line = nlohmann::json::parse([&] {
    const std::string lines = read_file(folder / "r/metrics.jsonl");
    return lines.substr(lines.rfind('\n', lines.size() - 2) + 1);
  }());
  for (const char* const key : {"train_loss", "val_loss", "val_ap", "val_ap_50", "val_ap_75"})
    CHECK(line.contains(key));
  CHECK(!line.contains("train_ap"));
  const nlohmann::json figures = run(folder, {"eval", "r", "--json", "-"}).json().at("detection");
  for (const char* const key : {"ap", "ap_50", "ap_75", "ap_small", "ar_1", "ar_100"}) CHECK(figures.contains(key));
  CHECK(figures.at("per_class").at(0).at("class") == "dog");
  const nlohmann::json worst = read_json(folder / "r/classes.json").at("detection").at("worst").at(0);
  check_says(worst.at("sample").get<std::string>(), "c.pgm");
  for (const char* const picture : {"image", "mask", "prediction"})
    CHECK(!worst.at(picture).get<std::string>().empty());
  run(folder, {"report", "r"});
  run(folder, {"report", "--data", "c.yaml", "-o", "samples.html"});
  check_says(read_file(folder / "samples.html"), "data:image/");
  run(folder, {"plan", "-c", "c.yaml"});
  run(folder, {"explain", "-c", "c.yaml"});

  const nlohmann::json found =
      run(folder, {"predict", "r", "p/val/c.pgm", "--json", "--score", "0", "--out", "found"}).json();
  REQUIRE(found.at("boxes").size() == found.at("scores").size());
  REQUIRE(found.at("boxes").size() == found.at("labels").size());
  for (const nlohmann::json& box : found.at("boxes")) {
    CHECK(0 <= box[0].get<double>());
    CHECK(box[2].get<double>() <= 40);
    CHECK(box[3].get<double>() <= 20);
  }
  for (const nlohmann::json& label : found.at("labels")) CHECK((label == "cat" || label == "dog"));
  const std::string overlay = read_file(folder / found.at("overlay").get<std::string>());
  const std::vector<std::uint8_t> bytes(overlay.begin(), overlay.end());
  CHECK(lacuna::decode_image(bytes).shape() == lacuna::Shape{20, 40, 3});
  check_refusals(folder, {"predict", "r", "p/val/c.pgm", "--out", "others"},
                 {{"--overlay", "--overlay"},
                  {"--add-one", "--add-one"},
                  {"--windows", "--windows"},
                  {"--whole", "--whole"},
                  {"--top=3", "--top"},
                  {"--pairs", "--pairs"},
                  {"--max-length=3", "--max-length"}});
  CHECK(!std::filesystem::exists(folder / "others"));
}

TEST_CASE("boxes: a classifier's weights start the backbone, and LoRA and frozen backbones train the rest") {
  const TemporaryFolder folder(model);
  put_coco(folder);
  using Counts = std::vector<std::int64_t>;
  const auto classifier = lacuna::build_model("resnet",
                                              {{"block", "basic"},
                                               {"layers", Counts{1, 1, 1, 1}},
                                               {"channels", Counts{4, 4, 4, 6}},
                                               {"stem_width", std::int64_t{4}}},
                                              {.seed = 7});
  lacuna::save_weights(*classifier, folder / "resnet.safetensors");
  run(folder, {"train", "-c", "c.yaml", "model.from=resnet.safetensors", "freeze.freeze=['backbone.body.*']"});
  const lacuna::SafetensorsFile trained(folder / "r/best/model.safetensors");
  const lacuna::SafetensorsFile given(folder / "resnet.safetensors");
  CHECK(trained.load("backbone.body.layer4.0.conv1.weight").to_vector() ==
        given.load("layer4.0.conv1.weight").to_vector());
  run(folder, {"train", "-c", "c.yaml", "model.from=r/best", "adapter={name: lora, targets: ['backbone.body.*conv*']}",
               "output=l"});
  run(folder, {"predict", "l", "p/val/c.pgm"});
  run(folder, {"export", "l", "merged"});
  run(folder, {"predict", "merged", "p/val/c.pgm"});
  CHECK(lacuna::SafetensorsFile(folder / "merged/model.safetensors").contains("backbone.fpn.inner_blocks.0.0.weight"));
  check_refused(folder,
                {"train", "-c", "c.yaml", "model.from=resnet.safetensors", "output=x",
                 "model.backbone={name: resnet, block: basic, layers: [2, 1, 1, 1], channels: [4, 4, 4, 6], "
                 "stem_width: 4}"},
                {"layer1.1"});
}

TEST_CASE("boxes: SSDLite starts from a MobileNetV3 of torchvision or timm, where its tail has the width of theirs") {
  const TemporaryFolder folder(
      "model: {name: ssdlite, image_size: 64, width: 0.05, reduced_tail: false,\n"
      "        blocks: 8 3 8 8 0 RE 1; 8 3 16 8 1 RE 2; 8 5 24 8 0 HS 2; 8 5 16 8 1 HS 1}\n"
      "data: {path: p}\n"
      "freeze: {freeze: ['backbone.features.*']}\n"
      "train: {epochs: 1, batch_size: 2, threads: 1}\n"
      "output: {dir: r}\n");
  put_coco(folder);
  const lacuna::SafetensorsFile given(LACUNA_SOURCE_DIR "/tests/models/classifiers/mobilenetv3.safetensors");
  const auto write = [&](const std::string& library, const std::string& begin, const std::string& file) {
    std::vector<lacuna::NamedTensor> tensors;
    for (const lacuna::SafetensorsEntry& entry : given.entries())
      if (entry.name.starts_with(library))
        tensors.emplace_back(begin + entry.name.substr(library.size()), given.load(entry.name));
    lacuna::write_safetensors(folder / file, tensors);
  };
  write("torchvision/", "module.", "torchvision.safetensors");
  write("timm/", "", "timm.safetensors");
  put(folder / "timm/config.json",
      R"({"architecture": "efficientnet", "num_classes": 5, "model_args": {
          "form": "mobilenetv3", "activation": "hard_swish", "stem_size": 8, "num_features": 8, "norm_eps": 0.001,
          "blocks": "ds_r1_k3_c8_nre; ir_r1_k3_s2_e2_c8_se0.25_nre; ir_r1_k5_s2_e3_c16 ir_r1_k5_e2_c16_se0.25; cn_r1_k1_c96"}})");
  write("timm/", "", "timm/model.safetensors");
  for (const std::string from : {"torchvision.safetensors", "timm.safetensors", "timm"}) {
    CAPTURE(from);
    const std::string output = "output=" + from + ".run";
    check_says(run(folder, {"train", "-c", "c.yaml", "model.from=" + from, output}).out, "classifier");  // left out
    const lacuna::SafetensorsFile trained(folder / (from + ".run/best/model.safetensors"));
    std::size_t compared = 0;
    for (const lacuna::SafetensorsEntry& entry : given.entries()) {
      const std::string name = entry.name.substr(entry.name.find('/') + 1);
      if (!entry.name.starts_with("ssdlite/") || entry.shape.rank() != 4) continue;
      ++compared;
      CHECK(trained.load(name).to_vector() == given.load(entry.name).to_vector());
    }
    CHECK(compared == 17);
    check_refused(folder, {"train", "-c", "c.yaml", "model.from=" + from, "model.reduced_tail=true", "output=x"},
                  {"reduced_tail"});
  }
}

TEST_CASE("boxes: bad ones end the command with code 2 and one line that names the file") {
  const std::vector<std::string> train{"train", "-c", "c.yaml"};
  const TemporaryFolder folder(model);
  put_coco(folder, "[10, 2, 0, 10]");
  check_refused(folder, train, {"train.json", "width"});
  put_coco(folder);
  check_refused(folder, {"train", "-c", "c.yaml", "model.num_classes=5"}, {"num_classes", "2"});
  check_refused(folder, {"train", "-c", "c.yaml", "data.labels=cat, cow"}, {"json", "dog"});
  check_refused(folder, {"train", "-c", "c.yaml", "model.anchor_sizes=[8, 16, 24, 32, 40, 48]"}, {"anchor_sizes"});
  check_refused(folder, {"train", "-c", "c.yaml", "model.backbone=vgg11"}, {"backbone"});
  check_refused(folder, {"train", "-c", "c.yaml", "task.name=segmentation"}, {"task"});
  fs::remove(folder / "p/train/a.pgm");
  check_refused(folder, train, {"train.json", "a.pgm"});
}
