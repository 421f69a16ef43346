// Folders in and out by the command: what a run leaves, what `export` makes of it, and what `model.from` alone takes.
#include "models/io/weights.h"
#include "tests/apps/train/train_run.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace lacuna;
using namespace lacuna::test;

namespace {

constexpr std::string_view configuration =
    "model: {name: vit, image_size: 8, patch_size: 4, embed_dim: 8, depth: 1, num_heads: 2}\n"
    "data: {name: shapes, train_size: 16, val_size: 10, mean: [0.5, 0.4, 0.3], std: [0.2, 0.2, 0.25]}\n"
    "train: {epochs: 1, batch_size: 8, threads: 1, ema_decay: 0.5}\n"
    "output: {dir: r}\n";

}  // namespace

TEST_CASE("export: a run's best checkpoint as a folder, which evaluates alike in both conventions") {
  const TrainedFolder folder({}, configuration);
  for (const char* const place : {"r/last/config.json", "r/last/average/config.json"}) {
    const nlohmann::json said = read_json(folder / place);
    CHECK(said.at("num_classes") == 10);
    CHECK(said.at("label_names").size() == 10);
    CHECK(said.at("pretrained_cfg").at("mean") == nlohmann::json{0.5, 0.4, 0.3});
    CHECK(said.at("model_args").at("embed_dim") == 8);
  }
  const nlohmann::json of_run = run(folder, {"eval", "r", "--json", "-"}).json();
  const std::vector<std::string> data{"data.name=shapes",   "data.val_size=10", "train.threads=1",
                                      "train.batch_size=8", "--json",           "-"};
  for (const std::string format : {"timm", "transformers"}) {
    CAPTURE(format);
    const nlohmann::json written = run(folder, {"export", "r", format, "--format", format, "--json", "-"}).json();
    CHECK(written.at("format") == format);
    CHECK(fs::exists(folder / format / "model.safetensors"));
    for (const fs::directory_entry& entry : fs::directory_iterator(folder.path()))
      CHECK(entry.path().extension() != ".tmp");
    std::vector<std::string> evaluation{"eval", format};
    evaluation.insert(evaluation.end(), data.begin(), data.end());
    const nlohmann::json evaluated = run(folder, evaluation).json();
    CHECK(evaluated.at("val_loss") == of_run.at("val_loss"));
    check_refusals(folder, {"export", "r"}, {{format, format}});
    check_refusals(folder, {"eval", format}, {{"data.val_size=10", "data.path"}});  // nobody means drawn shapes
  }
  // The checkpoint itself is a folder, too; and what is no run and no folder is told apart.
  run(folder, {"export", "r/checkpoints/step-00000002/average", "again"});
  CHECK(read_file(folder / "again/model.safetensors") == read_file(folder / "timm/model.safetensors"));
  check_refusals(folder, {"export"}, {{"nothing\nx", "nothing"}, {"r\nx\n--format\nonnx", "--format", "onnx"}});
  CHECK_FALSE(fs::exists(folder / "x"));
}

TEST_CASE("model.from: a folder alone says what the model is; what is given wins, or contradicts") {
  const TrainedFolder folder({}, configuration);
  run(folder, {"export", "r", "given"});
  write_file(folder / "f.yaml",
             "model: {from: given}\ndata: {name: shapes, train_size: 16, val_size: 10}\n"
             "train: {batch_size: 8, threads: 1}\noutput: {dir: f}\n");
  run(folder, {"train", "-c", "f.yaml"});
  const std::string resolved = read_file(folder / "f/config.yaml");
  for (const char* const part : {"embed_dim: 8", "num_heads: 2", "[0.5, 0.4, 0.3]", "[0.2, 0.2, 0.25]"})
    CHECK_MESSAGE(resolved.find(part) != std::string::npos, part);
  run(folder, {"train", "--resume", "f", "train.epochs=2"});
  fs::copy(folder / "given", folder / "cropped", fs::copy_options::recursive);
  nlohmann::json cropped = read_json(folder / "cropped/config.json");
  cropped["pretrained_cfg"]["crop_pct"] = 0.8;
  cropped["pretrained_cfg"]["crop_mode"] = "center";
  cropped["pretrained_cfg"]["interpolation"] = "bicubic";
  write_file(folder / "cropped/config.json", cropped.dump());
  run(folder, {"train", "-c", "f.yaml", "model.from=cropped", "output.dir=c"});
  lacuna::test::check_says(read_file(folder / "c/config.yaml"), "interpolation: bicubic");
  CHECK(read_json(folder / "c/last/config.json").at("pretrained_cfg").at("crop_pct") == 0.8);
  fs::rename(folder / "given", folder / "gone");  // a run goes on without what it began with
  run(folder, {"train", "--resume", "f", "train.epochs=3"});
  fs::rename(folder / "gone", folder / "given");

  run(folder, {"train", "-c", "f.yaml", "output.dir=g", "model.image_size=16", "data.mean=[0.5,0.5,0.5]",
               "data.std=[0.5,0.5,0.5]", "model.num_classes=12", "model.drop_path_rate=0.1"});
  const nlohmann::json said = read_json(folder / "g/last/config.json");
  CHECK(said.at("pretrained_cfg").at("input_size") == nlohmann::json{3, 16, 16});
  CHECK(said.at("pretrained_cfg").at("mean") == nlohmann::json{0.5, 0.5, 0.5});
  CHECK(said.at("num_classes") == 12);

  check_refusals(folder, {"plan", "-c", "f.yaml"},
                 {{"model.embed_dim=24", "given/config.json", "24|8"},
                  {"model.num_heads=4", "model.num_heads", "4"},
                  {"model.name=resnet18", "resnet18"},
                  {"model.name=deit_tiny_patch16_224", "192"},
                  {"model.from=nowhere", "model.name"}});

  // A folder that names a family says of the model what it lists alone, and its statistics.
  const nlohmann::json images = read_json(folder / "given/config.json").at("pretrained_cfg");
  write_file(folder / "given/config.json", nlohmann::json{{"architecture", "vit"}, {"pretrained_cfg", images}}.dump());
  run(folder, {"train", "-c", "c.yaml", "model.from=given", "output.dir=bare",
               "data={name: shapes, train_size: 16, val_size: 10}"});
  lacuna::test::check_says(read_file(folder / "bare/config.yaml"), "mean: [0.5, 0.4, 0.3]");
}

TEST_CASE("distillation: the teacher's folder says what it is") {
  const TrainedFolder folder({"train.ema_decay=0"}, configuration);
  const std::vector<std::string> distill{"train", "-c", "c.yaml", "output.dir=s",
                                         "task={name: distillation, teacher_from: r/last}"};
  run(folder, distill);
  // Its own normalisation: other images for the student are the same ones for the teacher, but for rounding.
  std::vector<std::string> wrong = distill;
  wrong.insert(wrong.end(), {"output.dir=t", "task={name: distillation, teacher: resnet18, teacher_from: r/last}"});
  const CommandResult refused = run_command(folder, wrong);
  CHECK(refused.code != 0);
  lacuna::test::check_says(refused.error, "resnet18");
}
