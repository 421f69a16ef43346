// Graph networks on drawn graphs.
#include "autograd/policy.h"
#include "autograd/tape.h"
#include "data/collate.h"
#include "models/registry.h"
#include "models/task.h"

#include <doctest/doctest.h>

namespace lacuna {
namespace {

Batch graph_of(Split split, std::int64_t nodes, std::string_view like = "small") {
  DatasetOptions options{.split = split};
  options.settings = {{"like", std::string(like)}, {"nodes", nodes}};
  const auto samples = open_dataset("random_graph", options);
  std::vector<Sample> one(1);
  one.front().begin(0);
  samples->read(0, one.front());
  return collate(one, samples->info().fields);
}

std::unique_ptr<Model> tiny(std::string_view family, std::string_view library, std::int64_t features = 32,
                            std::int64_t classes = 5) {
  return build_model(family,
                     {{"library", std::string(library)},
                      {"features", features},
                      {"hidden", std::int64_t{8}},
                      {"num_classes", classes}},
                     {});
}

/// Loss and gradients of one step.
std::vector<std::vector<double>> step(Model& model, const Task& task, const Batch& batch, std::string_view policy) {
  const RandomStateScope random({.seed = 3, .step = 7});
  const std::unique_ptr<MemoryPolicy> how = make_policy(policy);
  Tape tape(*how);
  std::vector<std::vector<double>> all;
  {
    const Recording recording(tape);
    const Variable loss = task.run(model, batch, TaskMode::train).loss;
    all.push_back(loss.tensor().to_vector());
    tape.backward(loss);
  }
  for (Parameter* const parameter : model.parameters()) {
    all.push_back(parameter->grad().to_vector());
    parameter->set_grad({});
  }
  return all;
}

}  // namespace

TEST_CASE("graphs: a step that keeps less has the bits of one that keeps everything") {
  const Batch batch = graph_of(Split::train, 700);
  for (const std::string_view family : {"gcn", "gat", "gcnii"})
    for (const std::string_view library : {"cogdl", "pyg"}) {
      CAPTURE(family);
      CAPTURE(library);
      const std::unique_ptr<Model> model = tiny(family, library);
      const std::unique_ptr<Task> task = make_task("node_classification", {}, *model);
      CHECK(step(*model, *task, batch, "exact") == step(*model, *task, batch, "keep"));
    }
}

TEST_CASE("graphs: several labels a node") {
  const Batch batch = graph_of(Split::train, 500, "yelp");
  const std::unique_ptr<Model> model = tiny("gcn", "cogdl", 300, 100);
  const std::unique_ptr<Task> task = make_task("node_multi_label", {}, *model);
  const TaskResult result = task->run(*model, batch, TaskMode::evaluate);
  CHECK(result.sums.size() == task->metrics().size());
  CHECK(task->weight(batch, TaskMode::train) == static_cast<double>(batch["nodes"].count()));
  CHECK(result.loss.tensor().item() > 0);
}

TEST_CASE("graphs: two in a batch give what each gives alone") {
  const DatasetOptions options{.settings = {{"like", std::string("small")}, {"nodes", std::int64_t{100}}}};
  const auto samples = open_dataset("random_graph", options);
  std::vector<Sample> two(2);
  for (Sample& one : two) {
    one.begin(0);
    samples->read(0, one);
  }
  const std::unique_ptr<Model> model = tiny("gat", "pyg");
  model->set_training(false);
  const Batch together = collate(two, samples->info().fields);
  const std::vector<double> all = model->forward(together).take("logits").tensor().to_vector(),
                            alone = model->forward(together.part(1, 2)).take("logits").tensor().to_vector();
  CHECK(std::vector<double>(all.begin() + std::ssize(alone), all.end()) == alone);
}

TEST_CASE("graphs: attention refuses weights of edges, which a convolution reads") {
  const auto run = [](std::string_view family) {
    Batch batch = graph_of(Split::train, 100);
    batch.set("weights", Tensor::full({batch["sources"].count()}, 2, DType::f32, Device::cpu));
    tiny(family, "pyg")->forward(std::move(batch));
  };
  run("gcn");
  CHECK_THROWS_AS(run("gat"), Error);
}

TEST_CASE("graphs: options without effect are refused") {
  const auto build = [](std::string_view library, std::string_view option, bool value) {
    return build_model("gcnii", {{"library", std::string(library)}, {std::string(option), value}}, {});
  };
  CHECK_THROWS_AS(build("cogdl", "shared", false), Error);
  CHECK_THROWS_AS(build("pyg", "residual", true), Error);
  CHECK_NOTHROW(build("pyg", "shared", false));
}

TEST_CASE("graphs: the head of each family has all tensors with a row for each class") {
  for (const std::string_view family : {"gcn", "gat", "gcnii"})
    for (const std::string_view library : {"cogdl", "pyg"}) {
      CAPTURE(family);
      CAPTURE(library);
      const std::unique_ptr<Model> model = tiny(family, library);
      for (const Parameter* const parameter : model->parameters())
        if (parameter->shape()[0] == 5) CHECK(parameter->path().starts_with(model->heads().front() + "."));
    }
}

TEST_CASE("graphs: features of another width are refused") {
  const Batch batch = graph_of(Split::train, 100);
  const std::unique_ptr<Model> model = tiny("gcn", "cogdl", 31);
  CHECK_THROWS_AS(model->forward(batch), Error);
}

}  // namespace lacuna
