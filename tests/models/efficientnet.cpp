// EfficientNet and MobileNet: what a step keeps, images of any size, and block strings that are refused. Numbers are
// compared with timm's in tests/apps/commands/reference.cpp and tests/models/folders.cpp.
#include "autograd/policies/rules.h"
#include "core/error.h"
#include "models/registry.h"
#include "tests/models/tiny_models.h"
#include "tests/refusal.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

namespace lacuna {
namespace {

using test::step;
using test::whole;

std::string refusal(const std::string& blocks) {
  try {
    build_model("efficientnet", {{"blocks", blocks}}, {.device = Device::meta});
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("EfficientNet: a step keeps the inputs of the norms, about a third of what PyTorch keeps") {
  constexpr double mib = 1 << 20;
  struct KeptByModel {
    const char* model;
    double of_pytorch;  // MiB an image of 224x224 in f32, measured: tensors that its autograd saves, parameters aside
    double exact;       // the largest share of them
  };
  for (const auto& [name, of_pytorch, exact] : {KeptByModel{"mobilenetv3_large_100", 42.1, 0.47},
                                                {"efficientnet_b0", 84.2, 0.35},
                                                {"efficientnetv2_s", 147.45, 0.37}}) {
    CAPTURE(name);
    const test::Description description{name, {{"image_size", whole(224)}}};
    const double all = of_pytorch * mib * test::batch;
    const auto saved = [&](MemoryPolicy& policy) {
      return static_cast<double>(step(description, policy, {}, {.device = Device::meta}).saved);
    };
    CHECK(saved(*make_policy("exact")) < exact * all);
    CHECK(saved(*make_policy("fixed", {{"bits", 4.0}})) < 0.1 * all);
  }
}

TEST_CASE("EfficientNet: as many tensors as timm's state dicts") {
  const auto tensors = [](std::string_view name) {
    const std::unique_ptr<Model> model = build_model(name, {}, {.device = Device::meta});
    return std::pair(model->parameters().size(), model->buffers().size());
  };
  CHECK(tensors("efficientnet_b0") == std::pair<std::size_t, std::size_t>(213, 147));
  CHECK(tensors("mobilenetv3_large_100") == std::pair<std::size_t, std::size_t>(174, 138));
  CHECK(tensors("tf_efficientnetv2_s") == std::pair<std::size_t, std::size_t>(452, 330));
}

TEST_CASE("EfficientNet: images of any size, padded as TensorFlow does or evenly") {
  for (const bool same : {false, true}) {
    const test::Description tiny = test::tiny_efficientnet({{"same_padding", same}});
    const std::unique_ptr<Model> model = build_model(tiny.name, tiny.hyper_parameters, {});
    for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 2}, {31, 18}}) {
      const Variable logits = test::logits_of(
          *model, Variable(Tensor::zeros({2, height, width, 3}, DType::f32, Device::cpu, Purpose::data)));
      CHECK(logits.shape() == Shape{2, 5});
    }
  }
}

TEST_CASE("EfficientNet: block strings that timm or Lacuna lacks are refused with what they lack") {
  CHECK(refusal("ds_r1_k3_s1_c16; ir_r2_k3_s2_e6_c24_se0.25_noskip er_c24_nr6") == "");
  test::check_says(refusal("uir_r1_k3_s1_c16"), "uir_r1_k3_s1_c16");
  test::check_says(refusal("ds_r1_k3_s1_c16; ds_r1_k4_s1_c16"), "k4");
  test::check_says(refusal("ds_r1_k3_s3_c16"), "s3");
  test::check_says(refusal("ds_r0_c16"), "r0");
  test::check_says(refusal("ds_r1x_c16"), "r1x");
  test::check_says(refusal("ds_c16_se1.5"), "se1.5");
  test::check_says(refusal("ds_c16_se0.01"), "se0.01");  // it would leave no channel
  test::check_says(refusal("ds_c16_se0.5; ir_r2_e6_c24_se0.25; ds_c1; ds_c8_se0.2"), "se0.2 ");
  test::check_says(refusal("ir_c16_e1e-300_se0.25"), "e1e-300");
  test::check_says(refusal("cn_c16_se0.25"), "se");
  test::check_says(refusal("ds_c16_nmi"), "nmi");
  test::check_says(refusal("ds_r1_k3"), "channels");
  test::check_says(refusal("ds_c16;; ds_c16"), "without blocks");
  test::check_says(refusal(""), "1 to 64");
}

}  // namespace lacuna
