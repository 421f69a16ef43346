// Trains with checkpoints: `resume FOLDER [STOP]` goes on from the checkpoint in the folder if there is one, and ends
// after step STOP with a new one. Prints the weights' sum to the last bit.
#include <lacuna/lacuna.h>

#include <cstdlib>
#include <filesystem>

using namespace lacuna;

/// Points of the plane, inside or outside of a circle.
class Points final : public Dataset {
 public:
  explicit Points(std::int64_t size)
      : Dataset({.name = "points",
                 .size = size,
                 .fields = {{.name = "points", .dtype = DType::f32, .shape = {2}},
                            {.name = "labels", .dtype = DType::i64, .below = 2}},
                 .classes = {"outside", "inside"}}) {}

 private:
  void read_sample(std::int64_t index, Sample& sample) const override {
    const RandomStream random{1, static_cast<std::uint32_t>(index), random_site("points")};
    const float x = 2 * random.uniform(0) - 1, y = 2 * random.uniform(1) - 1;
    const Tensor point = sample.make("points", {2}, DType::f32);
    point.data<float>()[0] = x;
    point.data<float>()[1] = y;
    sample.set("points", point);
    const Tensor label = sample.make("labels", {}, DType::i64);
    label.data<std::int64_t>()[0] = x * x + y * y < 0.6F ? 1 : 0;
    sample.set("labels", label);
  }
};

/// Input `points` [N, 2], output `logits` [N, 2].
class Net final : public Model {
 public:
  Net()
      : Model(ModelContext{},
              {.inputs = {{.name = "points", .dtype = DType::f32, .shape = {2}}}, .num_classes = 2, .heads = {}}),
        body_(*this, "body") {
    body_.add<nn::Linear>(2, 64).add(relu).add<nn::Linear>(64, 64).add(relu).add<nn::Linear>(64, 2);
  }
  Outputs forward(Inputs inputs) override {
    Outputs outputs;
    outputs.set("logits", body_.forward(inputs.take("points")));
    return outputs;
  }

 private:
  nn::Sequential body_;
};

int main(int count, char** arguments) {
  const std::filesystem::path folder = count > 1 ? arguments[1] : "run";
  const std::int64_t stop = count > 2 ? std::atoi(arguments[2]) : 0;
  Net net;
  const auto task = make_task("classification", {}, net);
  const auto optimizer = make_optimizer("adamw", {}, net);
  const auto policy = make_policy("exact");
  const Batches train(shuffle(std::make_shared<Points>(1024), 1), {.size = 64, .drop_last = true});
  const Batches validation(std::make_shared<Points>(256), {.size = 64});
  const ScheduleRun run{.lr = 1e-2, .total_steps = 5 * train.count(), .steps_per_epoch = train.count()};
  Trainer trainer({net, *optimizer, *policy, nullptr}, *task, train, validation,
                  {.epochs = 5, .learning_rate = make_schedule("cosine", {}, run)});
  if (std::filesystem::exists(folder / "checkpoint")) trainer.resume(folder / "checkpoint");
  const bool ended = trainer.run({.stop = [&] { return stop > 0 && trainer.progress().step >= stop; },
                                  .after_epoch =
                                      [](const EpochResult& epoch) {
                                        fmt::print("epoch {}  loss {:.3f}  accuracy {:.3f}\n", epoch.epoch,
                                                   epoch.train.loss(), epoch.validation.metrics.at("accuracy"));
                                      }});
  if (!ended) {
    std::filesystem::create_directories(folder);
    trainer.save(folder / "checkpoint");
    fmt::print("stopped after step {}\n", trainer.progress().step);
    return 0;
  }
  double sum = 0;
  for (const Parameter* parameter : net.parameters())
    for (const double value : parameter->tensor().to_vector()) sum += value * value;
  fmt::print("weights {:a}\n", sum);
}
