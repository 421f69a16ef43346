#include "models/backbone.h"

#include "autograd/policy.h"
#include "autograd/tape.h"
#include "core/random.h"
#include "nn/functional.h"

#include <doctest/doctest.h>

namespace lacuna {
namespace {

Variable images(std::int64_t height, std::int64_t width) {
  const Tensor x = Tensor::empty({2, height, width, 3}, DType::f32, Device::cpu);
  const RandomStream stream{.seed = 3};
  for (std::int64_t i = 0; i < x.count(); ++i)
    x.data<float>()[i] = stream.uniform(static_cast<std::uint64_t>(i)) - 0.5F;
  return Variable(x);
}

struct Case {
  BackboneOptions options;
  std::int64_t height, width;
  std::vector<std::int64_t> maps;
};

const Case cases[] = {
    {{"resnet", {{"layers", std::vector{1, 1, 1, 1}}, {"channels", std::vector{4, 4, 8, 8}}, {"stem_width", 8}}},
     40,
     56,
     {0, 1, 2, 3}},
    {{"resnet",
      {{"block", "basic"}, {"layers", std::vector{1, 2, 1}}, {"channels", std::vector{4, 4, 8}}, {"output_stride", 8}}},
     33,
     41,
     {1, 2}},
    {{"convnext", {{"depths", std::vector{1, 1, 1}}, {"dims", std::vector{8, 12, 16}}}}, 32, 48, {-2, -1}},
    {{"swin",
      {{"embed_dim", 8}, {"depths", std::vector{1, 2, 1}}, {"num_heads", std::vector{1, 2, 4}}, {"window_size", 4}}},
     36,
     52,
     {0, 1, 2}},
    {{"vit", {{"patch_size", 8}, {"embed_dim", 16}, {"depth", 4}, {"num_heads", 2}}}, 24, 40, {1, 3}},
    {{"mobilenetv3_small_100", {}}, 64, 64, {0, 1, 2, 3}},
};

}  // namespace

TEST_CASE("backbones: maps have the shapes that are said, and every parameter a gradient") {
  for (const Case& one : cases)
    for (const bool map_norm : {false, true}) {
      CAPTURE(one.options.name);
      Module root({});
      const BackboneForm form{{one.height, one.width}, 3, one.maps, map_norm};
      HyperProblems problems;
      const std::vector<MapShape> said = Backbone::check(one.options, form, "backbone", problems);
      CHECK(problems.all().empty());
      const Backbone backbone(root, "backbone", one.options, form);
      const std::vector<MapShape> shapes = backbone.shapes();
      REQUIRE(shapes.size() == one.maps.size());
      REQUIRE(said.size() == shapes.size());
      CHECK(backbone.model().heads().empty());
      const std::unique_ptr<MemoryPolicy> policy = make_policy("keep");
      Tape tape(*policy);
      Variable total;
      {
        const Recording recording(tape);
        const std::vector<Variable> maps = backbone.maps(images(one.height, one.width));
        REQUIRE(maps.size() == shapes.size());
        for (std::size_t i = 0; i < maps.size(); ++i) {
          const std::int64_t stride = shapes[i].stride;
          const auto reduced = [&](std::int64_t extent) { return (extent + stride - 1) / stride; };
          CHECK(maps[i].shape() == Shape{2, reduced(one.height), reduced(one.width), shapes[i].channels});
          Variable part = sum(maps[i] * maps[i]);
          total = total.defined() ? total + part : part;
        }
      }
      tape.backward(std::move(total));
      for (const Parameter* const parameter : root.parameters()) {
        CAPTURE(parameter->path());
        CHECK(parameter->path().starts_with("backbone."));
        CHECK(parameter->grad().defined());
      }
    }
}

TEST_CASE("backbones: names of maps and models that do not exist are refused") {
  HyperProblems problems;
  Backbone::check({"resnet5000", {}}, {.image_size = 32, .maps = {0}}, "backbone", problems);
  Backbone::check({"vgg16", {}}, {.image_size = 32, .maps = {0}}, "backbone", problems);
  Backbone::check({"resnet18", {{"depth", 4}}}, {.image_size = 32, .maps = {0}}, "backbone", problems);
  REQUIRE(problems.all().size() == 3);
  CHECK_THROWS_AS(Backbone::check({"resnet18", {}}, {.image_size = 32, .maps = {4}}, "backbone", problems), Error);
}

}  // namespace lacuna
