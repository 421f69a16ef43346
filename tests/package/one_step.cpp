// Builds a model, trains one step, prints what the memory was for.
#include "autograd/tape.h"
#include "models/registry.h"
#include "ops/loss.h"
#include "optim/optimizer.h"

using namespace lacuna;

int main() {
  const auto model = build_model(
      "vit",
      {{"image_size", 32}, {"patch_size", 8}, {"embed_dim", 32}, {"depth", 2}, {"num_heads", 2}, {"num_classes", 10}},
      ModelContext{});
  const auto optimizer = make_optimizer("adamw", {}, *model);
  const std::unique_ptr<MemoryPolicy> how = make_policy("exact");
  Tape tape(*how);
  const Recording recording(tape);
  const Variable images(Tensor::full({2, 32, 32, 3}, 0.5, DType::f32, Device::cpu, Purpose::data));
  const Variable labels(Tensor::full({2}, 3, DType::i64, Device::cpu, Purpose::data));
  const Variable loss = apply(CrossEntropy{}, model->forward(images), labels);
  tape.backward(loss);
  optimizer->step(1e-3);
  fmt::print("loss {:.3f}\n", loss.tensor().item());
  for (int i = 0; i < purpose_count; ++i) {
    const auto purpose = static_cast<Purpose>(i);
    fmt::print("{:<12}{:>12}\n", name_of(purpose), format_bytes(at(ledger(Device::cpu).highest(), purpose)));
  }
}
