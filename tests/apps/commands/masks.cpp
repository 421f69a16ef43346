// Own pictures with masks, from the folder to predicted masks, and what is refused before a run.
#include "data/images/image_reader.h"
#include "data/segmentation/mask_values.h"
#include "tests/apps/commands/command_run.h"
#include "tests/apps/refusals.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

using namespace lacuna::test;
namespace fs = std::filesystem;

namespace {

const fs::path source = fs::path(LACUNA_SOURCE_DIR) / "tests/data/segmentation";

void put(const TemporaryFolder& folder, const std::string& from, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    fs::create_directories((folder / name).parent_path());
    fs::copy_file(source / from, folder / name);
  }
}

}  // namespace

TEST_CASE("masks: bad ones end the command with code 2 and one line that names the file") {
  struct Case {
    std::string mask, part;
    std::vector<std::string> more{};
  };
  for (const Case& one : {Case{"large.png", "14×10"}, Case{"rgb.png", "data.colors"}, Case{"grey.jpg", "JPEG"},
                          Case{"grey.png", "value 2", {"data.labels=a, b"}}, Case{"black_white.png", "data.map"}}) {
    const TemporaryFolder folder;
    put(folder, "image.png", {"p/images/a.png", "p/images/b.png"});
    const std::string extension = one.mask.substr(one.mask.rfind('.'));
    put(folder, one.mask, {"p/masks/a" + extension, "p/masks/b" + extension});
    std::vector<std::string> arguments{"train", "model=resnet20", "data=p", "output=r"};
    arguments.insert(arguments.end(), one.more.begin(), one.more.end());
    const CommandResult result = run_command(folder, arguments);
    CAPTURE(one.mask);
    CHECK(result.code == 2);
    check_says(result.error, "p/masks/");
    check_says(result.error, one.part);
  }
  const TemporaryFolder folder;
  put(folder, "image.png", {"p/images/a.png"});
  put(folder, "grey.png", {"p/masks/a.png", "p/masks/gone.png"});
  const CommandResult result = run_command(folder, {"train", "model=resnet20", "data=p", "output=r"});
  CHECK(result.code == 2);
  check_says(result.error, "gone.png");
}

TEST_CASE(
    "masks: a path alone is trained on, evaluated by class, shown on the page and predicted in the images' own size") {
  const TemporaryFolder folder(
      "model: {name: linear_segmenter, image_size: 16, backbone: {name: vit, patch_size: 4, embed_dim: 8, depth: 1, "
      "num_heads: 2}}\n"
      "data: {path: p, augment: scale_crop, photometric: true, crop_mode: border, labels: 'a, b, c, d, e'}\n"
      "train: {epochs: 1, batch_size: 2, threads: 1}\n"
      "output: {dir: r}\n");
  put(folder, "image.png", {"p/images/train/1.png", "p/images/train/2.png", "p/images/val/3.png"});
  put(folder, "grey.png", {"p/masks/train/1.png", "p/masks/train/2.png", "p/masks/val/3.png"});
  check_says(run(folder, {"train", "-c", "c.yaml"}).out, "mask_folder");
  const nlohmann::json figures = run(folder, {"eval", "r", "--json", "-"}).json().at("segmentation");
  CHECK(figures.at("per_class").size() == 5);
  CHECK(figures.at("per_class").at(2).at("class") == "c");
  const nlohmann::json worst = read_json(folder / "r/classes.json").at("segmentation").at("worst").at(0);
  check_says(worst.at("sample").get<std::string>(), "3.png");
  for (const char* picture : {"image", "mask", "prediction"}) CHECK(!worst.at(picture).get<std::string>().empty());
  constexpr std::uintmax_t most = 1 << 20;
  CHECK(fs::file_size(folder / "r/classes.json") < most);
  run(folder, {"report", "r"});
  run(folder, {"report", "--data", "c.yaml"});
  check_refused(folder, {"train", "model=resnet20", "data=p", "data.labels=a, b, c, d, e", "output=other"},
                {"resnet20", "classification", "masks", "segformer"});
  CHECK(run_command(folder, {"eval", "r", "--whole", "--windows"}).code == 2);

  const std::string given = read_file(folder / "p/masks/val/3.png");
  const std::vector<std::uint8_t> labels(given.begin(), given.end());
  run(folder, {"train", "-c", "c.yaml", "data.crop_mode=squash", "output.dir=squashed"});
  struct Shown {
    const char *of, *how;
  };
  for (const auto& [of, how] : {Shown{"r", "--whole"}, {"r", "--windows"}, {"squashed", "--whole"}}) {
    CAPTURE(of);
    const nlohmann::json line = run(folder, {"predict", of, "p/images/val/3.png", "--json", "--out",
                                             std::string(of) + how, "--overlay", "--add-one", how})
                                    .json();
    double pixels = 0;
    for (const nlohmann::json& share : line.at("pixels")) pixels += share.get<double>();
    CHECK(pixels == doctest::Approx(1));
    const std::string mask = read_file(folder / line.at("mask").get<std::string>()),
                      overlay = read_file(folder / line.at("overlay").get<std::string>());
    const std::vector<std::uint8_t> values(mask.begin(), mask.end()), colors(overlay.begin(), overlay.end());
    lacuna::MaskReader reader(values, {});
    CHECK(reader.height() == 5);
    CHECK(reader.width() == 7);
    lacuna::MaskReader truth(labels, {});
    std::vector<std::vector<std::uint16_t>> rows;
    truth.read([&](const std::uint16_t* row) { rows.emplace_back(row, row + 7); });
    double same = 0, counted = 0;
    reader.read([&, y = std::size_t{0}](const std::uint16_t* row) mutable {
      for (std::size_t x = 0; x < 7; ++x) {
        CHECK((1 <= row[x] && row[x] <= 5));
        counted += rows[y][x] < 5;
        same += row[x] == rows[y][x] + 1;
      }
      ++y;
    });
    const nlohmann::json own = run(folder, {"eval", of, how, "--json", "-"}).json();
    CHECK(own.at("segmentation").at("pixel_accuracy").get<double>() == doctest::Approx(same / counted));
    CHECK(!own.contains("val_loss"));
    CHECK(lacuna::decode_image(colors).shape() == lacuna::Shape{5, 7, 3});
  }
  // The whole image is what an evaluation shows in either mode.
  for (const std::string of : {"r", "squashed"}) {
    run(folder, {"predict", of, "p/images/val/3.png", "--out", of + "-usual", "--add-one"});
    CHECK(read_file(folder / (of + "-usual/3.png")) == read_file(folder / (of + "--whole/3.png")));
  }
  const nlohmann::json first = run(folder, {"predict", "r", "p/images/val/3.png", "--json", "--top", "1"}).json();
  CHECK(first.at("classes").size() == 1);
  CHECK(first.at("pixels").size() == 1);
  CHECK(run_command(folder, {"predict", "r", "p/images/val/3.png", "--overlay"}).code == 2);
  check_refusals(folder, {"predict", "r", "p/images/val/3.png"}, {{"--score=0.3", "--score"}, {"--pairs", "--pairs"}});
  const std::string before = read_file(folder / "p/images/val/3.png");
  CHECK(run_command(folder, {"predict", "r", "p/images/val/3.png", "--out", "p/images/val"}).code != 0);
  CHECK(run_command(folder, {"predict", "r", "p/images", "--out", "p/images/val"}).code != 0);
  CHECK(read_file(folder / "p/images/val/3.png") == before);
}

TEST_CASE("masks: a segmenter starts from a classifier's folder or file, and says what starts anew") {
  const TemporaryFolder folder(
      "model: {name: resnet, image_size: 32, layers: [1, 1, 1, 1], channels: [4, 4, 8, 16], stem_width: 8}\n"
      "data: {train_size: 4, val_size: 4}\n"
      "train: {epochs: 1, batch_size: 2, threads: 1}\n"
      "output: {dir: r}\n");
  run(folder, {"train", "-c", "c.yaml"});
  const std::vector<std::string> small{"data.train_size=4", "data.val_size=4", "epochs=1", "batch_size=2",
                                       "model.image_size=32"};
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"train"};
    arguments.insert(arguments.end(), small.begin(), small.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command(folder, arguments);
  };
  const std::string backbone =
      "model.backbone={name: resnet, layers: [1, 1, 1, 1], channels: [4, 4, 8, 16], stem_width: 8}";
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"model.name=fcn", "model.from=r/last", "output=folder"},
        {"model.name=fcn", "model.from=r/last/model.safetensors", backbone, "output=file"},
        {"model.name=semantic_fpn", "model.from=r/last", backbone, "output=fpn"}}) {
    const CommandResult result = train(more);
    CAPTURE(more[1]);
    CAPTURE(result.error);
    REQUIRE(result.code == 0);
    check_says(result.out, "starts anew");
    check_says(result.out, "fc.weight");  // left out
  }
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"model.name=upernet_swin_tiny", "model.from=r/last", "output=bad"},
        {"model.name=fcn", "model.from=r/last", "model.backbone={name: resnet, layers: [2, 1, 1, 1]}", "output=bad"}}) {
    const CommandResult result = train(more);
    CHECK(result.code == 2);
    check_says(result.error, "config.json");
  }
  CHECK(run_command(folder, {"eval", "model.name=fcn", "model.from=r/last", "model.image_size=32"}).code == 2);
}

TEST_CASE("masks: an adapter on a classifier's weights is exported with the model around that backbone") {
  const TemporaryFolder folder(
      "model: {name: linear_segmenter, image_size: 16, backbone: {name: vit, patch_size: 4, embed_dim: 8, depth: 1, "
      "num_heads: 2}}\n"
      "data: {path: p, labels: 'a, b, c, d, e'}\n"
      "train: {epochs: 1, batch_size: 2, threads: 1}\n"
      "output: {dir: r}\n");
  put(folder, "image.png", {"p/images/train/1.png", "p/images/train/2.png", "p/images/val/3.png"});
  put(folder, "grey.png", {"p/masks/train/1.png", "p/masks/train/2.png", "p/masks/val/3.png"});
  run(folder, {"train", "model={name: vit, image_size: 16, patch_size: 4, embed_dim: 8, depth: 1, num_heads: 2}",
               "data={name: shapes, train_size: 4, val_size: 2}", "train={epochs: 1, batch_size: 2, threads: 1}",
               "output=base"});
  run(folder, {"train", "-c", "c.yaml", "model.from=base/best", "adapter={name: lora, targets: ['*qkv*']}"});
  run(folder, {"export", "r", "adapter", "--adapter"});
  const auto predicted = [&](const std::string& model) {
    const nlohmann::json found = run(folder, {"predict", model, "p/images/val/3.png", "--json"}).json();
    return std::pair(found.at("classes"), found.at("pixels"));
  };
  CHECK(predicted("adapter") == predicted("r"));
  check_refused(folder, {"export", "r", "other", "--adapter", "--format", "transformers"}, {"--format"});
}

TEST_CASE("masks: SegFormer starts from a PVTv2's folder, with its sizes") {
  const TemporaryFolder folder(
      "model: {name: pvt_v2, image_size: 32, embed_dims: [4, 4, 8, 8], depths: [1, 1, 2, 1], num_heads: [1, 1, 2, 2]}\n"
      "data: {train_size: 4, val_size: 4}\n"
      "train: {epochs: 1, batch_size: 2, threads: 1}\n"
      "output: {dir: r}\n");
  run(folder, {"train", "-c", "c.yaml"});
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{
        "train",    "model.name=segformer", "data.train_size=4", "data.val_size=4", "batch_size=2",
        "epochs=1", "model.image_size=32",  "model.from=r/last"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command(folder, arguments);
  };
  const CommandResult taken = train({"output=s"});
  CAPTURE(taken.error);
  REQUIRE(taken.code == 0);
  check_says(taken.out, "head.weight");  // left out
  const CommandResult refused = train({"model.depths=[1, 1, 1, 1]", "output=bad"});
  CHECK(refused.code == 2);
  check_says(refused.error, "config.json");
}

TEST_CASE("masks: settings of the loss in a folder of transformers hold, and what has no effect is told") {
  const TemporaryFolder folder(
      "model: {name: upernet, image_size: 32, hidden_size: 4, aux_channels: 4,\n"
      "        backbone: {name: convnext, dims: [4, 4, 6, 6], depths: [1, 1, 1, 1]}}\n"
      "data: {name: shape_masks, train_size: 4, val_size: 2}\n"
      "train: {epochs: 1, batch_size: 2, threads: 1}\n"
      "output: {dir: r}\n");
  put(folder, "image.png", {"p/images/train/1.png", "p/images/train/2.png", "p/images/val/3.png"});
  put(folder, "grey.png", {"p/masks/train/1.png", "p/masks/train/2.png", "p/masks/val/3.png"});
  run(folder, {"train", "-c", "c.yaml", "task.aux_weight=0.25"});
  nlohmann::json config = read_json(folder / "r/best/config.json");
  CHECK(config.at("auxiliary_loss_weight") == 0.25);
  CHECK(config.at("loss_ignore_index") == 255);
  config["loss_ignore_index"] = 3;
  write_file(folder / "r/best/config.json", config.dump());
  write_file(folder / "r/best/preprocessor_config.json", R"({"do_reduce_labels": true})");
  const std::vector<std::string> train{"train", "model.from=r/best", "epochs=1", "batch_size=2", "train.threads=1"};
  const auto settings = [&](std::vector<std::string> more, const std::string& output) {
    more.insert(more.begin(), train.begin(), train.end());
    more.push_back("output=" + output);
    const std::string said = run(folder, more).out;
    return std::pair(said, read_file(folder / output / "config.yaml"));
  };
  const std::vector<std::string> own{"data.path=p", "data.labels=a, b, c, d, e", "data.map={255: 0}"};
  const auto [said, resolved] = settings(own, "own");
  check_says(resolved, "aux_weight: 0.25");
  check_says(resolved, "ignore: 3");
  check_says(said, "task.aux_weight");
  check_says(said, "do_reduce_labels");
  CHECK(read_json(folder / "own/best/config.json").at("loss_ignore_index") == 3);
  const auto [silent, given] = settings({own[0], own[1], own[2], "task.aux_weight=0.5", "data.ignore=4"}, "given");
  check_says(given, "aux_weight: 0.5");
  check_says(given, "ignore: \"4\"");
  CHECK(read_json(folder / "given/best/config.json").at("loss_ignore_index") == 4);
  CHECK(silent.find("aux_weight") == std::string::npos);
  const auto [told, drawn] = settings({"data.name=shape_masks", "data.train_size=4", "data.val_size=2"}, "drawn");
  check_says(drawn, "aux_weight: 0.25");
  check_says(told, "data.ignore");
}

TEST_CASE("masks: transformers' processor shows an exported segmenter what an evaluation here shows") {
  const TemporaryFolder folder(
      "model: {name: segformer, image_size: [32, 64], embed_dims: [4, 4, 8, 8], depths: [1, 1, 1, 1],\n"
      "        num_heads: [1, 1, 1, 1], decoder_hidden_size: 6}\n"
      "data: {train_size: 4, val_size: 2}\n"
      "train: {epochs: 1, batch_size: 2, threads: 1}\n"
      "output: {dir: r}\n");
  run(folder, {"train", "-c", "c.yaml"});
  const CommandResult exported = run(folder, {"export", "r", "hf"});
  CHECK(exported.error.empty());
  const nlohmann::json processor = read_json(folder / "hf/preprocessor_config.json");
  CHECK(processor.at("image_processor_type") == "SegformerImageProcessor");
  CHECK(processor.at("size") == nlohmann::json{{"height", 32}, {"width", 64}});
  CHECK(!processor.contains("do_center_crop"));
  put(folder, "image.png", {"image.png"});
  CHECK(run(folder, {"predict", "hf", "image.png"}).out == run(folder, {"predict", "r", "image.png"}).out);
  run(folder, {"train", "-c", "c.yaml", "data.crop_mode=border", "output.dir=b"});
  check_says(run(folder, {"export", "b", "padded"}).error, "crop_mode");  // of another form
}
