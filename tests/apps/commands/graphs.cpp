// Graphs from the command line: training in each precision, and the classes of all nodes.
#include "tests/apps/commands/command_run.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using namespace lacuna::test;

TEST_CASE("graphs: each family trains in f32 and bf16, and predict has a line for each node") {
  for (const std::string model : {"gcn", "gat", "gcnii"})
    for (const std::string precision : {"f32", "bf16"}) {
      CAPTURE(model);
      CAPTURE(precision);
      const TemporaryFolder folder;
      const CommandResult trained = run_command(
          folder, {"train", "model=" + model, "model.hidden=8", "data.name=random_graph", "data.like=small",
                   "data.nodes=300", "epochs=2", "train.device=cpu", "train.precision=" + precision, "output=r"});
      CHECK(trained.code == 0);
      const CommandResult predicted = run_command(folder, {"predict", "r"});
      CHECK(predicted.code == 0);
      std::istringstream lines(predicted.out);
      std::int64_t count = 0;
      for (std::string line; std::getline(lines, line); ++count) {
        const nlohmann::json node = nlohmann::json::parse(line);
        CHECK(node.at("node") == count);
        CHECK(node.at("probability").get<double>() > 0);
      }
      CHECK(count == 300);
    }
}

TEST_CASE("graphs: predict and eval name nodes as nodes.csv does, and predict refuses options of images") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "g");
  std::ofstream(folder / "g/nodes.csv") << "id,label,split,f0\nann,x,train,1\nbob,y,val,2\ncat,x,val,2\n";
  std::ofstream(folder / "g/edges.csv") << "source,target\nann,bob\ncat,ann\n";
  CHECK(run_command(folder,
                    {"train", "model=gcn", "model.hidden=8", "data=g", "epochs=1", "train.device=cpu", "output=r"})
            .code == 0);
  const CommandResult predicted = run_command(folder, {"predict", "r"});
  std::istringstream lines(predicted.out);
  std::vector<std::string> ids;
  for (std::string line; std::getline(lines, line);) ids.push_back(nlohmann::json::parse(line).at("id"));
  CHECK(ids == std::vector<std::string>{"ann", "bob", "cat"});
  CHECK(run_command(folder, {"predict", "r", "--out", "x"}).code != 0);
  const std::string evaluated = run_command(folder, {"eval", "r"}).out;  // bob and cat are alike, and one is wrong
  CHECK((evaluated.find("node bob") != std::string::npos || evaluated.find("node cat") != std::string::npos));
}

TEST_CASE("graphs: weights for other classes leave the whole head anew") {
  const TemporaryFolder folder;
  const auto train = [&](const std::string& model, const std::string& last_class, const std::string& more) {
    std::filesystem::create_directories(folder / last_class);
    std::ofstream(folder / last_class / "nodes.csv") << "label,split,f0\nx,train,1\ny,val,2\n"
                                                     << last_class << ",train,3\n";
    std::ofstream(folder / last_class / "edges.csv") << "source,target\n0,1\n2,0\n";
    return run_command(folder, {"train", "model=" + model, "model.hidden=8", "model.library=pyg", "epochs=1",
                                "data=" + last_class, "train.device=cpu", more});
  };
  for (const std::string model : {"gcn", "gat"}) {
    CAPTURE(model);
    CHECK(train(model, "y", "output=run_" + model).code == 0);
    const CommandResult next = train(model, "z", "model.from=run_" + model + "/best");
    CAPTURE(next.error);
    CHECK(next.code == 0);
    CHECK((next.out + next.error).find("2 classes") != std::string::npos);
  }
}

TEST_CASE("graphs: settings without effect are refused") {
  const TemporaryFolder folder;
  const auto status = [&](const std::string& setting) {
    return run_command(folder,
                       {"plan", "model=gcn",
                        "data=" + (std::filesystem::path(LACUNA_SOURCE_DIR) / "tests/data/ogb").string(), setting})
        .code;
  };
  CHECK(status("data.undirected=false") == 0);
  CHECK(status("data.inductive=true") == 2);
  CHECK(status("data.train_size=1") == 2);
  const auto drawn = [&](const std::string& setting) {
    return run_command(folder, {"plan", "model=gcn", "data.name=random_graph", "data.like=small", setting}).code;
  };
  CHECK(drawn("data.evaluated=test") == 0);
  CHECK(drawn("data.evaluated=none") == 2);
  CHECK(drawn("data.train_size=5") == 2);
}
