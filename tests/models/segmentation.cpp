// Segmenters: memory policies, frozen backbones, adapters, and masks without a pixel that counts.
#include "autograd/policy.h"
#include "autograd/tape.h"
#include "models/adapters.h"
#include "models/io/weights.h"
#include "models/registry.h"
#include "models/task.h"
#include "models/tasks/segmentation/segmentation_figures.h"
#include "nn/freeze.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lacuna {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t side = 32, classes = 3;

Tree backbone(const std::string& name, std::vector<TreeEntry> options) {
  Tree map;
  map.kind = Tree::Kind::map;
  map.entries = std::move(options);
  map.entries.push_back({"name", {}, name});
  return map;
}

std::vector<HyperParameter> tiny(const std::string& family) {
  const Numbers ones{1, 1, 1, 1};
  std::vector<HyperParameter> all{{"image_size", side}, {"num_classes", classes}};
  std::vector<TreeEntry> resnet{{"block", {}, "bottleneck"},
                                {"layers", {}, ones},
                                {"channels", {}, Numbers{2, 3, 3, 4}},
                                {"stem_width", {}, std::int64_t{4}}};
  const auto add = [&](std::vector<HyperParameter> more) { all.insert(all.end(), more.begin(), more.end()); };
  if (family == "fcn" || family == "deeplabv3") resnet.push_back({"output_stride", {}, std::int64_t{8}});
  if (family == "fcn" || family == "deeplabv3" || family == "semantic_fpn")
    add({{"backbone", backbone("resnet", std::move(resnet))}});
  if (family == "deeplabv3") add({{"atrous_rates", Numbers{1, 2, 3}}, {"head_channels", std::int64_t{4}}});
  if (family == "semantic_fpn") add({{"fpn_channels", std::int64_t{4}}, {"head_channels", std::int64_t{4}}});
  if (family == "linear_segmenter")
    add({{"map_norm", true},
         {"backbone", backbone("vit", {{"patch_size", {}, std::int64_t{8}},
                                       {"embed_dim", {}, std::int64_t{8}},
                                       {"depth", {}, std::int64_t{2}},
                                       {"num_heads", {}, std::int64_t{2}}})}});
  if (family == "segformer")
    add({{"embed_dims", Numbers{4, 4, 8, 8}},
         {"depths", ones},
         {"num_heads", ones},
         {"sr_ratios", Numbers{8, 4, 2, 1}},
         {"decoder_hidden_size", std::int64_t{6}}});
  if (family == "upernet")
    add({{"backbone", backbone("convnext", {{"dims", {}, Numbers{4, 4, 6, 6}}, {"depths", {}, ones}})},
         {"hidden_size", std::int64_t{4}},
         {"aux_channels", std::int64_t{4}}});
  return all;
}

const std::vector<std::string> families{"fcn", "deeplabv3", "semantic_fpn", "linear_segmenter", "segformer", "upernet"};

/// Two images and their masks; `label`: of all pixels, or negative: drawn, with 255, which does not count, among them.
Batch two_images(int label = -1) {
  const RandomStream draws{.seed = 2, .site = random_site("segmentation")};
  const Tensor images = Tensor::empty({2, side, side, 3}, DType::f32, Device::cpu, Purpose::data);
  for (std::int64_t i = 0; i < images.count(); ++i)
    images.data<float>()[i] = 2 * draws.uniform(static_cast<std::uint64_t>(i)) - 1;
  const Tensor mask = Tensor::empty({2, side, side}, DType::u8, Device::cpu, Purpose::data);
  for (std::int64_t i = 0; i < mask.count(); ++i) {
    const std::uint32_t drawn = draws.below(static_cast<std::uint64_t>(i), classes + 1);
    mask.data<std::uint8_t>()[i] = label >= 0         ? static_cast<std::uint8_t>(label)
                                   : drawn == classes ? 255
                                                      : static_cast<std::uint8_t>(drawn);
  }
  Batch batch{{"images", images}, {"mask", mask}};
  batch.samples = 2;
  return batch;
}

struct Step {
  double loss = 0;
  std::vector<Tensor> gradients;
};
/// A step's gradients of the trained parameters. `prepare`: what is done to the model before.
template <class F>
Step step(const std::string& family, const std::string& policy, const Batch& batch, const F& prepare) {
  const auto model = build_model(family, tiny(family), {});
  prepare(*model);
  const auto task = make_task("segmentation", {{"dice", 0.5}}, *model);
  const auto how = make_policy(policy);
  Tape tape(*how);
  const Recording recording(tape);
  const Variable loss = task->run(*model, batch, TaskMode::train).loss;
  Step done{.loss = loss.tensor().item(), .gradients = {}};
  tape.backward(loss);
  for (const Parameter* const one : model->parameters())
    if (one->trainable()) done.gradients.push_back(one->grad());
  return done;
}

template <class F>
void check_exact_is_keep(const std::string& family, const F& prepare) {
  const Step keep = step(family, "keep", two_images(), prepare), exact = step(family, "exact", two_images(), prepare);
  INFO(family);
  CHECK(exact.loss == keep.loss);
  REQUIRE(!keep.gradients.empty());
  REQUIRE(exact.gradients.size() == keep.gradients.size());
  for (std::size_t i = 0; i < keep.gradients.size(); ++i) {
    REQUIRE(keep.gradients[i].defined() == exact.gradients[i].defined());
    if (keep.gradients[i].defined()) CHECK(exact.gradients[i].to_vector() == keep.gradients[i].to_vector());
  }
}

}  // namespace

TEST_CASE("segmentation: exact gradients equal those of keeping everything, with a frozen backbone too") {
  for (const std::string& family : families) {
    check_exact_is_keep(family, [](Model&) {});
    check_exact_is_keep(family,
                        [](Model& model) { freeze(model, {.train = {}, .freeze = {"backbone.*"}}, model.heads()); });
  }
}

TEST_CASE("segmentation: exact gradients equal those of keeping everything, with adapters in the backbone") {
  for (const std::string family : {"linear_segmenter", "segformer"})
    check_exact_is_keep(family, [](Model& model) {
      add_adapters(model, {.kind = "lora", .settings = {{"rank", 2.0}}, .targets = {"backbone.*attn*"}});
      freeze_below_adapters(model, {});
    });
}

TEST_CASE("segmentation: masks without a pixel that counts give a loss of 0 and gradients of 0") {
  for (const std::string& family : families) {
    INFO(family);
    const Step done = step(family, "exact", two_images(255), [](Model&) {});
    CHECK(done.loss == 0);
    for (const Tensor& gradient : done.gradients)
      if (gradient.defined()) CHECK(std::ranges::all_of(gradient.to_vector(), [](double value) { return value == 0; }));
  }
}

TEST_CASE(
    "segmentation: images without a pixel that counts are none of the worst, and figures of any number of classes") {
  for (const std::int64_t count : {2, 300, 60000}) {
    CAPTURE(count);
    SegmentationFigures figures(count, 65535, {});
    const std::vector<double> predicted{0, 1, 0, 0, 1, 1},
        labels{0, static_cast<double>(count - 1), 65535, 65535, 65535, 1};
    figures.add(Tensor::from(std::span<const double>(predicted), {3, 1, 2}, DType::i32),
                Tensor::from(std::span<const double>(labels), {3, 1, 2}, DType::i64));
    CHECK(figures.samples() == 3);
    CHECK(figures.worst() == Numbers{0, 2});
    const nlohmann::ordered_json json = figures.json([](std::int64_t i) { return std::to_string(i); });
    CHECK(json.at("pixel_accuracy").get<double>() == doctest::Approx(count == 2 ? 1 : 2.0 / 3));
    CHECK(json.at("per_class").at(1).at("pixels") == (count == 2 ? 2 : 1));
    CHECK(json.contains("confusion") == (count == 2));
  }
}

TEST_CASE("segmentation: an auxiliary head without a weight of its loss is refused") {
  const OptionValues none{{"aux_weight", 0.0}};
  CHECK_THROWS_AS(make_task("segmentation", none, *build_model("fcn", tiny("fcn"), {})), Error);
  CHECK_NOTHROW(make_task("segmentation", none, *build_model("segformer", tiny("segformer"), {})));
}

TEST_CASE("segmentation: the weight of a batch is that of its pixels that count") {
  const auto model = build_model("segformer", tiny("segformer"), {});
  const auto task = make_task("segmentation", {{"class_weights", std::string("1, 2, 4")}}, *model);
  const Batch batch = two_images();
  double trained = 0, evaluated = 0;
  for (const double label : batch["mask"].to_vector())
    if (label != 255) {
      trained += label == 0 ? 1 : label == 1 ? 2 : 4;
      ++evaluated;
    }
  CHECK(task->weight(batch, TaskMode::train) == trained);
  CHECK(task->weight(batch, TaskMode::evaluate) == evaluated);
}

TEST_CASE("segmentation: a batch of one image is refused where a head norms one value a channel") {
  const auto none = [](Model&) {};
  for (const std::string family : {"deeplabv3", "upernet"})
    CHECK_THROWS_AS(step(family, "exact", two_images().part(0, 1), none), Error);
  CHECK_NOTHROW(step("fcn", "exact", two_images().part(0, 1), none));
}

TEST_CASE("segmentation: SegFormer on timm's PVTv2 gives transformers' logits") {
  const SafetensorsFile given(LACUNA_SOURCE_DIR "/tests/models/classifiers/pvt_v2.safetensors");
  const auto model = build_model("segformer",
                                 {{"image_size", Numbers{64, 96}},
                                  {"num_classes", std::int64_t{5}},
                                  {"embed_dims", Numbers{6, 8, 12, 16}},
                                  {"depths", Numbers{1, 2, 1, 1}},
                                  {"num_heads", Numbers{1, 2, 3, 4}},
                                  {"mlp_ratios", std::vector<double>{3, 3, 2, 2}},
                                  {"decoder_hidden_size", std::int64_t{9}}},
                                 {});
  std::vector<NamedTensor> classifier, all;
  const std::string of_classifier = "classifier/", of_head = "head/";
  for (const SafetensorsEntry& entry : given.entries()) {
    if (entry.name.starts_with(of_classifier))
      classifier.emplace_back(entry.name.substr(of_classifier.size()), given.load(entry.name));
    if (entry.name.starts_with(of_head)) all.emplace_back(entry.name.substr(of_head.size()), given.load(entry.name));
  }
  const test::TemporaryFolder folder;
  write_safetensors(folder / "classifier.safetensors", classifier);
  const LoadedWeights loaded = load_weights(*model, WeightFiles(folder / "classifier.safetensors"), {.new_head = true});
  CHECK(loaded.left_out == std::vector<std::string>{"head.bias", "head.weight"});
  for (const auto& [name, tensor] : state_of(*model))
    if (!name.starts_with("decode_head.")) all.emplace_back(name, tensor);
  write_safetensors(folder / "all.safetensors", all);
  load_weights(*model, WeightFiles(folder / "all.safetensors"));
  model->set_training(false);
  Inputs inputs;
  inputs.set("images", Variable(given.load("input/images")));
  const std::vector<double> ours = model->forward(std::move(inputs)).take("logits").tensor().to_vector(),
                            theirs = given.load("eval/logits").to_vector();
  REQUIRE(ours.size() == theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] == doctest::Approx(theirs[i]).epsilon(1e-4));
}

}  // namespace lacuna
