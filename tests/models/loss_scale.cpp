// The loss scale of f16 in checkpoints.
#include "optim/loss_scale.h"

#include "models/checkpoint.h"
#include "tests/models/tiny_models.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <memory>
#include <optional>

namespace lacuna {
namespace {

struct Trained {
  explicit Trained(const std::optional<LossScaleSettings>& scale)
      : optimizer(make_optimizer("sgd", {}, *model, {.loss_scale = scale})) {}
  TrainedState state() const { return {*model, *optimizer, *policy, nullptr}; }
  double scale() const { return optimizer->loss_scale()->scale().item(); }

  std::unique_ptr<Model> model = build_model("vit", test::tiny_vit().hyper_parameters, {});
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<MemoryPolicy> policy = make_policy("exact");
};

}  // namespace

TEST_CASE("checkpoint: a loss scale goes on where it was, and runs of other precisions go on without one") {
  const test::TemporaryFolder folder;
  const LossScaleSettings settings{.initial = 1024, .growth_interval = 3};
  const Trained scaled(settings), unscaled({});
  for (const int finite : {0, 1, 1})
    scaled.optimizer->loss_scale()->adapt(Tensor::full({}, finite, DType::i32, Device::cpu));
  write_checkpoint(folder / "scaled", scaled.state(), {});
  write_checkpoint(folder / "unscaled", unscaled.state(), {});

  const Trained resumed(settings), anew(settings), other({});
  CHECK(load_checkpoint(folder / "scaled", resumed.state()).started_anew == 0);
  CHECK(resumed.scale() == 512);
  resumed.optimizer->loss_scale()->adapt(Tensor::full({}, 1, DType::i32, Device::cpu));  // the third in a row
  CHECK(resumed.scale() == 1024);
  CHECK(load_checkpoint(folder / "unscaled", anew.state()).started_anew == 0);
  CHECK(anew.scale() == 1024);
  CHECK(load_checkpoint(folder / "scaled", other.state()).started_anew == 0);
}

}  // namespace lacuna
