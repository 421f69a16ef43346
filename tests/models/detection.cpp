// Detectors: gradients, images without objects, what is found, and memory policies.
#include "models/detection/detector.h"
#include "models/detection/proposals.h"

#include "autograd/policy.h"
#include "autograd/tape.h"
#include "data/collate.h"
#include "data/detection/boxes.h"
#include "data/pipeline.h"
#include "models/feature_pyramid.h"
#include "models/io/weights.h"
#include "models/registry.h"
#include "models/task.h"
#include "models/tasks/detection/detection_figures.h"
#include "nn/freeze.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace lacuna {
namespace {

using Numbers = std::vector<std::int64_t>;

std::vector<HyperParameter> tiny(bool frozen_norm) {
  Tree backbone;
  backbone.kind = Tree::Kind::map;
  backbone.entries = {{"name", {}, "resnet"},
                      {"block", {}, "basic"},
                      {"layers", {}, Numbers{1, 1, 1, 1}},
                      {"channels", {}, Numbers{4, 4, 6, 6}},
                      {"stem_width", {}, std::int64_t{4}},
                      {"zero_init_last", {}, false}};
  return {{"backbone", backbone},           {"image_size", std::int64_t{48}},
          {"num_classes", std::int64_t{3}}, {"fpn_channels", std::int64_t{4}},
          {"frozen_norm", frozen_norm},     {"anchor_sizes", Numbers{8, 12, 16, 24, 32, 48, 64, 80, 96, 128}}};
}

/// Two images: one with two boxes, and one without any.
Batch two_images(DType dtype = DType::f32) {
  const Tensor images = Tensor::empty({2, 48, 48, 3}, dtype, Device::cpu, Purpose::data);
  const RandomStream draws{.seed = 3, .site = random_site("detection")};
  with_float_type(dtype, [&]<class T>(Type<T>) {
    for (std::int64_t i = 0; i < images.count(); ++i)
      images.data<T>()[i] = static_cast<T>(2 * draws.uniform(static_cast<std::uint64_t>(i)) - 1);
  });
  const std::vector<float> corners{4, 4, 20, 18, 20, 22, 44, 46};
  const Numbers labels{2, 0}, offsets{0, 2, 2}, uncounted{0, 0};
  Batch batch;
  batch.set("images", images);
  batch.set("box_offsets", Tensor::from(std::span<const std::int64_t>(offsets), {3}));
  batch.set_packed("boxes", Tensor::from(std::span<const float>(corners), {2, 4}), "box_offsets");
  batch.set_packed("box_labels", Tensor::from(std::span<const std::int64_t>(labels), {2}), "box_offsets");
  batch.set_packed("box_fills", Tensor::full({2}, 1, DType::f32, Device::cpu), "box_offsets");
  batch.set_packed("box_uncounted", Tensor::from(std::span<const std::int64_t>(uncounted), {2}), "box_offsets");
  batch.samples = 2;
  return batch;
}

std::vector<HyperParameter> tiny_faster_rcnn() {
  std::vector<HyperParameter> values = tiny(true);
  for (const auto& [key, value] : {std::pair("roi_size", 3), {"representation", 8}, {"box_batch_size_per_image", 16}})
    values.push_back({key, std::int64_t{value}});
  return values;
}

std::vector<HyperParameter> tiny_ssdlite() {
  return {{"blocks", std::string("8 3 8 8 0 RE 1; 8 3 16 8 1 RE 2; 8 5 24 16 1 HS 2; 16 5 32 16 1 HS 1")},
          {"width", 0.05},
          {"image_size", std::int64_t{48}},
          {"num_classes", std::int64_t{3}}};
}

std::vector<HyperParameter> tiny_of(const std::string& family) {
  return family == "ssdlite" ? tiny_ssdlite() : family == "fasterrcnn" ? tiny_faster_rcnn() : tiny(true);
}

std::vector<Tensor> gradients(const std::string& policy, const FreezeRules& rules = {},
                              const std::string& family = "retinanet") {
  const auto model = build_model(family, tiny_of(family), {});
  if (!rules.freeze.empty()) freeze(*model, rules, model->heads());
  const auto task = make_task("detection", {}, *model);
  const auto how = make_policy(policy);
  Tape tape(*how);
  const Recording recording(tape);
  tape.backward(task->run(*model, two_images(), TaskMode::train).loss);
  std::vector<Tensor> all;
  for (const Parameter* const one : model->parameters()) all.push_back(one->trainable() ? one->grad() : Tensor());
  return all;
}

}  // namespace

TEST_CASE("detection: gradients in f64 are the differences of the loss") {
  const auto model = build_model("retinanet", tiny(false), {.dtype = DType::f64});
  const auto task = make_task("detection", {}, *model);
  for (const Parameter* const one : model->parameters()) {  // no ReLU and no absolute value at its kink
    const RandomStream draws{.seed = 5, .site = random_site(one->path())};
    for (std::int64_t i = 0; i < one->tensor().count(); ++i)
      one->tensor().data<double>()[i] += 0.2 * static_cast<double>(draws.uniform(static_cast<std::uint64_t>(i))) - 0.1;
  }
  const auto loss = [&] { return task->run(*model, two_images(DType::f64), TaskMode::train).loss; };
  {
    const auto keep = make_policy("keep");
    Tape tape(*keep);
    const Recording recording(tape);
    tape.backward(loss());
  }
  double largest = 0;
  for (const Parameter* const one : model->parameters())
    for (const double value : one->grad().to_vector()) largest = std::max(largest, std::abs(value));
  const NoGrad no_grad;
  for (const Parameter* const one : model->parameters()) {
    auto* const value = one->tensor().data<double>() + one->tensor().count() / 2;
    const double own = one->grad().to_vector()[static_cast<std::size_t>(one->tensor().count() / 2)], before = *value;
    constexpr double step = 1e-6;
    *value = before + step;
    const double above = loss().tensor().item();
    *value = before - step;
    const double below = loss().tensor().item();
    *value = before;
    INFO(one->path());
    CHECK((above - below) / (2 * step) == doctest::Approx(own).epsilon(1e-4).scale(1e-3 * largest));
  }
}

TEST_CASE("detection: exact gradients equal those of keeping everything, with frozen stages too") {
  for (const std::string family : {"retinanet", "fasterrcnn", "ssdlite"})
    for (const FreezeRules& rules :
         {FreezeRules{},
          FreezeRules{.train = {}, .freeze = {family == "ssdlite" ? "backbone.features.*" : "backbone.body.*"}}}) {
      const std::vector<Tensor> keep = gradients("keep", rules, family), exact = gradients("exact", rules, family);
      for (std::size_t i = 0; i < keep.size(); ++i) {
        REQUIRE(keep[i].defined() == exact[i].defined());
        if (keep[i].defined()) CHECK(keep[i].to_vector() == exact[i].to_vector());
      }
    }
}

TEST_CASE("detection: a step in bf16 runs through and has the loss of one in f32, up to rounding") {
  const auto step = [](DType dtype) {
    const auto model = build_model("ssdlite", tiny_ssdlite(), {.dtype = dtype});
    const auto task = make_task("detection", {}, *model);
    const auto keep = make_policy("keep");
    Tape tape(*keep);
    const Recording recording(tape);
    Variable loss = task->run(*model, two_images(), TaskMode::train).loss;
    const double value = loss.tensor().item();
    tape.backward(std::move(loss));
    for (const Parameter* const one : model->parameters()) CHECK(one->grad().dtype() == DType::f32);
    return value;
  };
  CHECK(step(DType::bf16) == doctest::Approx(step(DType::f32)).epsilon(0.05));
}

TEST_CASE("detection: SSDLite's losses of a batch without objects are 0, and it refuses blocks that it cannot read") {
  const auto model = build_model("ssdlite", tiny_ssdlite(), {});
  Batch none = two_images();
  none["box_offsets"].fill(0);
  for (const char* const name : {"boxes", "box_labels", "box_fills", "box_uncounted"})
    none.set_packed(name, none[name].leading(0, 0), "box_offsets");
  CHECK(make_task("detection", {}, *model)->run(*model, none, TaskMode::train).loss.tensor().item() == 0);
  for (const char* const blocks : {"", "8 3 8 8 0 RE", "8 3 8 8 0 RE 1", "8 4 16 8 0 RE 2", "8 3 8 8 0 RE 2",
                                   "8 3 16 8 0 RE 2; 16 3 24 8 0 RE 1", "8 3 16 8 0 GELU 2"}) {
    INFO(blocks);
    CHECK_THROWS_AS(build_model("ssdlite", {{"blocks", std::string(blocks)}}, {}), Error);
  }
}

TEST_CASE("detection: frozen norms stay as they are, whatever is trained") {
  const auto model = build_model("retinanet", tiny(true), {});
  freeze(*model, {.train = {"*"}, .freeze = {}}, model->heads());
  const auto task = make_task("detection", {}, *model);
  const auto state = [&] {
    std::vector<double> all;
    for (const Buffer* const one : model->buffers())
      for (const double value : one->tensor().to_vector()) all.push_back(value);
    return all;
  };
  const std::vector<double> before = state();
  task->run(*model, two_images(), TaskMode::train);
  CHECK(state() == before);
  for (const Parameter* const one : model->parameters())
    CHECK(one->trainable() ==
          (one->path().find(".bn") == std::string::npos && one->path().find("downsample.1") == std::string::npos));
}

TEST_CASE("detection: batches without any object are trained on, and labels beyond the classes are refused") {
  std::unique_ptr<Model> model;
  SUBCASE("RetinaNet") { model = build_model("retinanet", tiny(true), {}); }
  SUBCASE("Faster R-CNN") { model = build_model("fasterrcnn", tiny_faster_rcnn(), {}); }
  const auto task = make_task("detection", {}, *model);
  Batch batch = two_images();
  const Batch empty = batch.part(1, 2);
  CHECK(std::isfinite(task->run(*model, empty, TaskMode::train).loss.tensor().item()));
  model->set_training(false);
  const std::vector<double> numbers = task->run(*model, empty, TaskMode::evaluate).sums.front().to_vector();
  REQUIRE(images_of(numbers).size() == 1);
  CHECK(images_of(numbers).front().truth.empty());
  batch["box_labels"].fill(3);
  CHECK_THROWS_AS(task->run(*model, batch, TaskMode::train), Error);
}

TEST_CASE("detection: samples of proposals are balanced, and drawn by seed, step and the image's number in the batch") {
  Numbers matches;
  for (std::int64_t i = 0; i < 300; ++i) matches.push_back(i % 3 - 2);
  for (std::int64_t& match : matches) match = match == 0 ? 7 : match;  // each third: left out, background, of an object
  const RandomStream draws{.seed = 1, .step = 4, .site = random_site("samples")};
  const Numbers drawn = draw_balanced(matches, 40, 0.25, draws, 1);
  const auto of = [&](const Numbers& some, std::int64_t match) {
    return std::ranges::count_if(some, [&](std::int64_t i) { return matches[static_cast<std::size_t>(i)] == match; });
  };
  CHECK(of(drawn, 7) == 10);
  CHECK(of(drawn, -1) == 30);
  CHECK(std::ranges::is_sorted(drawn));
  CHECK(std::ranges::adjacent_find(drawn) == drawn.end());
  CHECK(draw_balanced(matches, 40, 0.25, draws, 1) == drawn);
  CHECK(draw_balanced(matches, 40, 0.25, draws, 0) != drawn);
  CHECK(draw_balanced(matches, 40, 0.25, {.seed = 1, .step = 5, .site = draws.site}, 1) != drawn);
  CHECK(draw_balanced(matches, 40, 0.25, {.seed = 1, .step = 4, .site = draws.site, .first_sample = 1}, 0) == drawn);
  CHECK(draw_balanced(matches, 1000, 0.5, draws, 0).size() == 200);
}

TEST_CASE("detection: proposals are the best of each map, without overlaps, and an image without any has itself") {
  const auto floats = [](const std::vector<float>& values, const Shape& shape) {
    return Tensor::from(std::span<const float>(values), shape);
  };
  const Tensor anchors = floats({0, 0, 10, 10, 0, 0, 10, 11, 20, 20, 60, 30, 50, 50, 60, 60}, {4, 4});
  const std::vector<MapProposals> maps{
      {floats({1, 2, 3, 4}, {4}), Tensor::zeros({4, 4}, DType::f32, Device::cpu), anchors},
      {floats({0, 9}, {2}), Tensor::zeros({2, 4}, DType::f32, Device::cpu), anchors.leading(0, 2)}};
  const Tensor found = best_proposals(maps, 0, {40, 50}, {.of_map = 3, .of_image = 2, .nms_thresh = 0.7});
  CHECK(found.to_vector() == std::vector<double>{0, 0, 10, 11, 20, 20, 50, 30});
  const Tensor none =
      best_proposals(std::span(maps).first(1), 0, {40, 50}, {.of_map = 1, .of_image = 2, .nms_thresh = 0.7});
  CHECK(none.to_vector() == std::vector<double>{0, 0, 50, 40});
}

TEST_CASE("detection: crowds and difficult objects are not trained on") {
  const auto model = build_model("retinanet", tiny(true), {});
  const auto task = make_task("detection", {}, *model);
  Batch batch = two_images();
  batch["box_uncounted"].fill(1);
  const double crowd = task->run(*model, batch, TaskMode::train).loss.tensor().item();
  Batch none = two_images();
  none["box_offsets"].fill(0);
  for (const char* const name : {"boxes", "box_labels", "box_fills", "box_uncounted"})
    none.set_packed(name, none[name].leading(0, 0), "box_offsets");
  CHECK(task->run(*model, none, TaskMode::train).loss.tensor().item() == crowd);
}

TEST_CASE(
    "detection: a classifier's file becomes the backbone without its head, and one with other tensors is refused") {
  const test::TemporaryFolder folder;
  const auto classifier = build_model("resnet",
                                      {{"block", "basic"},
                                       {"layers", Numbers{1, 1, 1, 1}},
                                       {"channels", Numbers{4, 4, 6, 6}},
                                       {"stem_width", std::int64_t{4}},
                                       {"image_size", std::int64_t{48}},
                                       {"num_classes", std::int64_t{5}}},
                                      {});
  std::vector<NamedTensor> tensors = state_of(*classifier);
  write_safetensors(folder / "classifier.safetensors", tensors);
  tensors.emplace_back("layer4.0.conv9.weight", Tensor::zeros({2}, DType::f32, Device::cpu));
  write_safetensors(folder / "other.safetensors", tensors);
  for (const std::string family : {"retinanet", "fasterrcnn"}) {
    INFO(family);
    const auto model = build_model(family, tiny_of(family), {});
    const LoadedWeights loaded =
        load_weights(*model, WeightFiles(folder / "classifier.safetensors"), {.new_head = true});
    CHECK(loaded.left_out == std::vector<std::string>{"fc.bias", "fc.weight"});
    CHECK_THROWS_AS(load_weights(*model, WeightFiles(folder / "other.safetensors"), {.new_head = true}), Error);
  }
}

TEST_CASE("detection: best_objects clips, suppresses by class and keeps the best") {
  const std::vector<float> boxes{-5, 0, 10, 10, 0, 0, 10, 10, 0, 0, 10, 11, 30, 30, 60, 60},
      scores{0.9F, 0.8F, 0.7F, 0.6F};
  const FoundObjects found = best_objects({Tensor::from(std::span<const float>(boxes), {4, 4}),
                                           Tensor::from(std::span<const float>(scores), {4}),
                                           {1, 1, 2, 0}},
                                          {40, 50}, 0.5, 2);
  CHECK(found.labels == Numbers{1, 2});
  CHECK(found.boxes.to_vector() == std::vector<double>{0, 0, 10, 10, 0, 0, 10, 11});
  const std::vector<float> some{0.2F, 0.5F, 0.05F, 0.5F};
  CHECK(best_scores(Tensor::from(std::span<const float>(some), {4}), {0, 4}, 0.05, 2) == Numbers{1, 3});
  CHECK(best_scores(Tensor::from(std::span<const float>(some), {4}), {1, 2, 2}, 0.05, 1) == Numbers{0});
}

TEST_CASE("detection: figures are COCO's, and numbers carry images") {
  const ComparedImage image{.truth = {{.category = 1, .box = {0, 0, 10, 10}, .area = 100}},
                            .found = {{.category = 1, .box = {0, 0, 10, 10}, .score = 0.9}}};
  const std::vector<ComparedImage> images{image, {}};
  DetectionTable table({"cat", "dog"});
  table.add(numbers_of(images), {});
  CHECK(table.samples() == 2);
  const nlohmann::ordered_json json = table.json([](std::int64_t i) { return std::to_string(i); });
  CHECK(json.at("ap").get<double>() == doctest::Approx(1));
  CHECK(json.at("ap_large").is_null());
  CHECK(json.at("per_class").at(0).at("class") == "dog");
  CHECK(json.at("worst").size() == 1);
  for (const Metric& metric : detection_metrics())
    CHECK(metric.value(numbers_of(images).to_vector()) == doctest::Approx(1));
}

}  // namespace lacuna
