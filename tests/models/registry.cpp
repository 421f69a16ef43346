#include "models/registry.h"

#include "autograd/tape.h"
#include "core/error.h"

#include "tests/models/tiny_models.h"
#include "tests/refusal.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>

using namespace lacuna;

namespace {

using List = std::vector<std::int64_t>;

std::string refusal(std::string_view name, const std::vector<HyperParameter>& given) {
  try {
    build_model(name, given, {.device = Device::meta});
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("models: parameter counts are timm's (parameter_counts.txt)") {
  // sum(p.numel() for p in timm.create_model(name, num_classes=1000).parameters()); the CIFAR forms: He et al. 2016
  // with projections. Of segmenters: torchvision's and transformers' (without the last norm of its Swin backbone, which
  // no map goes through); of PVT and Semantic FPN: the papers' codes.
  std::map<std::string, std::int64_t> published;
  std::ifstream file(LACUNA_SOURCE_DIR "/tests/models/parameter_counts.txt");
  std::string line_name;
  for (std::int64_t count = 0; file >> line_name >> count;) published[line_name] = count;
  for (const std::string& name : model_names()) {
    INFO(name);
    const std::unique_ptr<Model> model = build_model(name, {}, {.device = Device::meta});
    const auto count = published.find(name);
    REQUIRE(count != published.end());
    CHECK(model->parameter_count() == count->second);
  }
  CHECK(model_names().size() == published.size());
}

TEST_CASE("models: as many tensors as timm's state dicts") {
  const auto tensors = [](std::string_view name) {
    const std::unique_ptr<Model> model = build_model(name, {}, {.device = Device::meta});
    return std::pair(model->parameters().size(), model->buffers().size());
  };
  CHECK(tensors("vit_base_patch16_224") == std::pair<std::size_t, std::size_t>(152, 0));
  CHECK(tensors("swin_tiny_patch4_window7_224") == std::pair<std::size_t, std::size_t>(173, 0));
  CHECK(tensors("swin_base_patch4_window12_384") == std::pair<std::size_t, std::size_t>(329, 0));
  CHECK(tensors("swinv2_tiny_window8_256") == std::pair<std::size_t, std::size_t>(221, 0));
  CHECK(tensors("deit_tiny_distilled_patch16_224") == std::pair<std::size_t, std::size_t>(155, 0));
  CHECK(tensors("deit3_small_patch16_224") == std::pair<std::size_t, std::size_t>(176, 0));
  CHECK(tensors("resnet50") == std::pair<std::size_t, std::size_t>(161, 159));
}

TEST_CASE("models: the tag of timm's names is no part of the model") {
  CHECK(describe_model("vit_base_patch16_224.augreg_in21k_ft_in1k", {}).family == "vit");
  test::check_says(refusal("vit_bose_patch16_224.augreg", {}), "did you mean vit_base_patch16_224");
}

TEST_CASE("models: hyper-parameters given win over the preset's, and all are resolved") {
  const ModelDescription description = describe_model("vit_tiny_patch16_224", {{"num_classes", std::int64_t{10}}});
  CHECK(description.problems.empty());
  CHECK(description.family == "vit");
  std::map<std::string, std::string> resolved;
  for (const auto& [key, value] : description.hyper_parameters) resolved[key] = to_yaml(value);
  CHECK(resolved["num_classes"] == "10");
  CHECK(resolved["embed_dim"] == "192");
  CHECK(resolved["qkv_bias"] == "true");
  CHECK(resolved["global_pool"] == "token");
  CHECK(to_yaml(Tree(List{3, 4, 6, 3})) == "[3, 4, 6, 3]");
  const std::unique_ptr<Model> model = description.build({.device = Device::meta});
  CHECK(model->num_classes() == 10);
  CHECK(field_of(model->inputs(), "images").shape == Shape{224, 224, 3});
  CHECK(model->heads() == std::vector<std::string>{"head"});
}

TEST_CASE("models: everything wrong with a description is listed at once") {
  const std::string all = refusal("vit", {{"image_size", std::int64_t{33}},
                                          {"patch_size", std::int64_t{8}},
                                          {"embed_dim", std::int64_t{50}},
                                          {"num_heads", std::int64_t{4}},
                                          {"depth", std::int64_t{0}},
                                          {"drop_rate", 1.0},
                                          {"qkv_bias", std::int64_t{1}},
                                          {"global_pool", "max"},
                                          {"patch_siz", std::int64_t{8}},
                                          {"zebra", true}});
  CHECK(std::ranges::count(all, '\n') == 8);
  for (const char* const words :
       {"`depth`: expected a whole number in [1, 4096], got `0`", "`qkv_bias`: expected true or false, got `1`",
        "`global_pool`: expected one of token, avg, token_avg, map", "`drop_rate`: expected a number in [0, 1)",
        "`patch_size` 8 does not divide `image_size` 33", "`num_heads` 4 does not divide `embed_dim` 50",
        "`patch_siz`: did you mean `patch_size`?",
        "`zebra`; known are image_size, in_channels, num_classes, patch_size, embed_dim, depth"})
    CHECK_MESSAGE(all.find(words) != std::string::npos, all);
  CHECK(refusal("resnet", {{"layers", List{1, 1}},
                           {"channels", List{8, 16, 32}},
                           {"block", "basic"},
                           {"cardinality", std::int64_t{2}}}) ==
        "model resnet:\n"
        "  `channels` names 3 stages, but `layers` 2\n"
        "  `cardinality` and `base_width` need `block: bottleneck`");
  test::check_says(refusal("resnet", {{"layers", List{}}}), "a list of 1 to 64 numbers");
  test::check_says(refusal("vit", {{"class_token", false}}), "reads the class token");
  test::check_says(refusal("vit", {{"embed_dim", 1e300}}), "`embed_dim`: expected a whole number");
  CHECK(refusal("vit", {{"embed_dim", 96.0}, {"num_heads", std::int64_t{3}}}) == "");
}

TEST_CASE("models: an unknown name is answered with the nearest one") {
  CHECK(refusal("resnet51", {}) == "unknown model resnet51: did you mean resnet50?");
  CHECK(refusal("deit_tiny", {}).starts_with("unknown model deit_tiny"));
  test::check_says(refusal("transformer", {}), "the families");
}

TEST_CASE("registry: a vision transformer excludes from decay what timm does") {
  const std::unique_ptr<Model> model = build_model("vit_tiny_patch16_224", {}, {.device = Device::meta});
  for (const Parameter* parameter : model->parameters()) {
    const std::string& path = parameter->path();
    const bool excluded =
        path == "cls_token" || path == "pos_embed" || path.ends_with(".bias") || path.find("norm") != std::string::npos;
    CHECK_MESSAGE(parameter->excluded_from_decay() == excluded, path);
  }
}

TEST_CASE("models: images of another shape are refused with both shapes") {
  const std::unique_ptr<Model> model = build_model("vit_cifar", {}, {.device = Device::meta});
  const auto forward = [&](const Shape& shape) {
    model->forward(Batch{{"images", Tensor::empty(shape, DType::f32, Device::meta, Purpose::data)}});
  };
  CHECK_THROWS_WITH_AS(forward({2, 3, 32, 32}), doctest::Contains("[N, 32, 32, 3] (channels last), got [2, 3, 32, 32]"),
                       Error);
  CHECK_THROWS_AS(forward({32, 32, 3}), Error);
  CHECK_THROWS_WITH_AS(model->forward(Batch{{"ids", Tensor::zeros({2, 7}, DType::i64, Device::meta)}}),
                       doctest::Contains("`images`, got ids"), Error);
  forward({2, 32, 32, 3});
  const std::unique_ptr<Model> resnet = build_model("resnet20", {}, {.device = Device::meta});
  const Variable logits =
      test::logits_of(*resnet, Variable(Tensor::empty({2, 40, 24, 3}, DType::f32, Device::meta, Purpose::data)));
  CHECK(logits.shape() == Shape{2, 10});
}

TEST_CASE("models: images keep their name in whatever type the model computes") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::unique_ptr<Model> model = build_model("resnet20", {}, {.device = Device::meta, .dtype = dtype});
    const std::unique_ptr<MemoryPolicy> exact = make_policy("exact");
    Tape tape(*exact);
    const Recording recording(tape);
    const Tensor images = Tensor::empty({2, 32, 32, 3}, DType::f32, Device::meta, Purpose::data);
    const Variable logits = test::logits_of(*model, Variable(images, false, "images"));
    const std::vector<Tape::SavedTensorReport> slots = tape.report();
    CHECK(std::ranges::any_of(slots, [](const auto& slot) { return slot.info.path.text() == "images"; }));
  }
}
