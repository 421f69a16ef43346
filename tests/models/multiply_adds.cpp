// Products of whole models: what rates by op are reckoned from.
#include "autograd/policy.h"
#include "autograd/tape.h"
#include "models/registry.h"
#include "ops/losses/loss.h"

#include "tests/models/tiny_models.h"

#include <doctest/doctest.h>

using namespace lacuna;

namespace {

class Count final : public Observer {
 public:
  void before(Phase, const Operation&, Label) override {}
  void after(Phase phase, const Operation&, Label, const Work& work, std::span<const Tensor>) override {
    (phase == Phase::forward ? forward : backward) += work.macs;
  }
  std::int64_t forward = 0, backward = 0;
};

Count count_step(Model& model, std::int64_t images) {
  const std::int64_t size = field_of(model.inputs(), "images").shape[0];
  const Variable x(Tensor::empty({images, size, size, 3}, DType::f32, Device::meta));
  const Variable targets(Tensor::empty({images}, DType::i64, Device::meta));
  Count count;
  const std::unique_ptr<MemoryPolicy> policy = make_policy("exact");
  Tape tape(*policy);
  tape.set_observer(&count);
  const Recording recording(tape);
  tape.backward(apply(CrossEntropy{}, test::logits_of(model, x), targets));
  return count;
}

}  // namespace

TEST_CASE("multiply-adds: those of convolutions and linear layers as published for ResNets") {
  // Their known counts, an image of 224x224 (torchvision gives 1.81 and 4.09 GFLOPS for its weights of these models).
  const std::pair<const char*, std::int64_t> published[]{{"resnet18", 1'814'073'344}, {"resnet50", 4'089'184'256}};
  for (const auto& entry : published) {
    CAPTURE(entry.first);
    const std::unique_ptr<Model> model = build_model(entry.first, {}, {.device = Device::meta});
    const Count count = count_step(*model, 2);
    CHECK(count.forward == 2 * entry.second);
    // The images want no gradient: of the stem there is that of the weight alone.
    const std::int64_t stem = std::int64_t{112} * 112 * 64 * 7 * 7 * 3;
    CHECK(count.backward == 2 * (2 * entry.second - stem));
  }
}

TEST_CASE("multiply-adds: backward counts the gradients that are wanted") {
  const std::unique_ptr<Model> model = build_model("resnet18", {}, {.device = Device::meta});
  for (Parameter* parameter : model->parameters()) parameter->set_trainable(parameter->path() == "fc.weight");
  CHECK(count_step(*model, 2).backward == 2 * 512 * 1000);
}

TEST_CASE("multiply-adds: a convolution in groups sums over those of its group") {
  // 4.23 GFLOPS of torchvision's weights of the model.
  const std::unique_ptr<Model> model = build_model("resnext50_32x4d", {}, {.device = Device::meta});
  CHECK(count_step(*model, 1).forward == 4'230'479'872);
}

TEST_CASE("multiply-adds: those of a vision transformer, by hand") {
  const std::unique_ptr<Model> model = build_model("vit",
                                                   {{"image_size", std::int64_t{8}},
                                                    {"patch_size", std::int64_t{4}},
                                                    {"embed_dim", std::int64_t{6}},
                                                    {"depth", std::int64_t{1}},
                                                    {"num_heads", std::int64_t{2}},
                                                    {"num_classes", std::int64_t{3}},
                                                    {"global_pool", std::string("avg")}},
                                                   {.device = Device::meta});
  const std::int64_t tokens = 5, width = 6, patches = 4 * width * 48;
  const std::int64_t block = tokens * (3 + 1 + 4 + 4) * width * width + 2 * tokens * tokens * width;
  const Count count = count_step(*model, 1);
  CHECK(count.forward == patches + block + width * 3);
  CHECK(count.backward == 2 * count.forward - patches);
}
