// Trains a small network on drawn points and prints the loss, and the peak of each kind of memory.
#include <lacuna/lacuna.h>

using namespace lacuna;

/// Two classes of points in the plane: inside and outside of a circle.
struct Points {
  Tensor inputs, labels;

  explicit Points(std::uint32_t step) {
    const RandomStream random{1, step, random_site("points")};
    std::vector<float> values;
    std::vector<std::int64_t> classes;
    for (std::uint64_t i = 0; i < 128; ++i) {
      const float x = 2 * random.uniform(2 * i) - 1, y = 2 * random.uniform(2 * i + 1) - 1;
      values.insert(values.end(), {x, y});
      classes.push_back(x * x + y * y < 0.6F ? 1 : 0);
    }
    inputs = Tensor::from(std::span<const float>(values), {128, 2});
    labels = Tensor::from(std::span<const std::int64_t>(classes), {128});
  }
};

class Net : public Module {
 public:
  Net() : Module(ModelContext{}), body_(*this, "body") {
    body_.add<nn::Linear>(2, 64).add(relu).add<nn::Linear>(64, 64).add(relu).add<nn::Linear>(64, 2);
  }
  Variable forward(Variable x) const { return body_.forward(std::move(x)); }

 private:
  nn::Sequential body_;
};

int main() {
  const Net net;
  const auto optimizer = make_optimizer("adamw", {}, net);
  const auto policy = make_policy("exact");
  for (std::uint32_t step = 0; step < 200; ++step) {
    const Points points(step);
    Tape tape(*policy);
    Variable loss;
    {
      const Recording recording(tape);
      loss = cross_entropy(net.forward(Variable(points.inputs)), Variable(points.labels));
    }
    tape.backward(loss);
    optimizer->step(3e-3);
    optimizer->zero_grad();
    if (step % 40 == 0 || step == 199) fmt::print("step {:>3}  loss {:.3f}\n", step, loss.tensor().item());
  }
  for (int i = 0; i < purpose_count; ++i) {
    const auto purpose = static_cast<Purpose>(i);
    fmt::print("{:<12}{:>12}\n", name_of(purpose), format_bytes(at(ledger(Device::cpu).highest(), purpose)));
  }
}
