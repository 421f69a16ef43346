#include "apps/report/results.h"

#include <doctest/doctest.h>

namespace lacuna::apps {

TEST_CASE("results: a label leaves out what is empty, and gives a key to what does not show its meaning") {
  std::vector<Result> results(2);
  results[0].settings = {{"optimizer.groups", "[]"},
                         {"memory.policy", "adaptive"},
                         {"memory.budget", ""},
                         {"memory.bits", 2.5},
                         {"train.batch_size", 8}};
  results[1].settings = {{"optimizer.groups", "[{lr: 1}]"},
                         {"memory.policy", "auto"},
                         {"memory.budget", "6GiB"},
                         {"memory.codes", nullptr},
                         {"train.batch_size", 8}};
  set_labels(results);
  CHECK(results[0].label == "adaptive · bits 2.5");
  CHECK(results[1].label == "groups [{lr: 1}] · auto · budget 6GiB");
  CHECK(phrase_of("memory", "{policy: fixed, bits: 4}") == "{policy: fixed, bits: 4}");
  CHECK(phrase_of("train.batch_size", 8) == "batch size 8");
}

TEST_CASE(
    "results: of many settings a label has those that tell results apart, the memory policy first, long ones last") {
  std::vector<Result> results(3);
  const auto settings = [](int depth, double lr, const char* freeze, const char* policy) {
    return NamedCells{{"model.depth", depth}, {"model.num_heads", depth}, {"train.batch_size", depth},
                      {"optimizer.lr", lr},   {"freeze.train", freeze},   {"memory.policy", policy}};
  };
  const char* const patterns = "[\"blocks.1*\", \"blocks.2*\", \"head*\"]";
  results[0].settings = settings(4, 0.1, patterns, "exact");
  results[1].settings = settings(4, 0.2, patterns, "fixed");
  results[2].settings = settings(6, 0.2, "[]", "exact");
  set_labels(results);
  CHECK(results[0].label == "depth 4 · exact");
  CHECK(results[1].label == "depth 4 · fixed");
  CHECK(results[2].label == "depth 6 · exact");
}

TEST_CASE("results: finished results that differ in the seed alone are a group") {
  std::vector<Result> results(5);
  const char* const rates[] = {"a", "a", "a", "b", "a"};
  const int seeds[] = {1, 2, 2, 1, 3};
  const double losses[] = {1, 2, 5, 7, 9};
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].label = std::to_string(i);
    results[i].settings = {{"optimizer.lr", rates[i]}, {"train.seed", seeds[i]}};
    results[i].figures = {{"val_loss", losses[i]}};
  }
  results[4].state = Result::State::unfinished;
  const Table table = table_of(results, "run");
  REQUIRE(table.groups.size() == 4);
  CHECK(table.groups[0].members == std::vector<std::size_t>{0, 1});  // a seed stands once in a group
  CHECK(table.groups[0].label == "lr a · 2 seeds");
  CHECK(table.groups[1].label == "2");
  CHECK(table.rows.at(0) == std::vector<std::string>{"run", "optimizer.lr", "seeds", "val loss"});
  CHECK(table.rows.at(1) == std::vector<std::string>{"lr a · 2 seeds", "a", "2", "1.5000 ± 0.7071"});
  CHECK(table.best == 0);
  CHECK(table.best_text == "lr a · 2 seeds: val loss 1.5000 ± 0.7071");
  CHECK(to_csv(results).starts_with("id,status,exit_code,optimizer.lr,train.seed,val_loss,"));
}

TEST_CASE("results: of equally good ones the one with the lower peak is the best") {
  std::vector<Result> results(3);
  const double losses[] = {1, 1, 2}, peaks[] = {30, 20, 10};
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].settings = {{"memory.policy", std::to_string(i)}};
    results[i].figures = {{"val_loss", losses[i]}, {"memory", {{"peak", peaks[i]}}}};
  }
  CHECK(table_of(results, "").best == 1);
}

TEST_CASE("results: runs that were judged by different metrics have a column each, and none of them is the best") {
  std::vector<Result> results(3);
  const char* const metrics[] = {"accuracy", "loss", "accuracy"};
  const double values[] = {0.5, 0.25, 0.75};
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].settings = {{"optimizer.lr", i}};
    results[i].figures = {{"val_loss", 1},
                          {"best", {{"metric", metrics[i]}, {"value", values[i]}, {"higher_is_better", i != 1}}}};
  }
  const Table table = table_of(results, "");
  CHECK(table.rows.at(0) ==
        std::vector<std::string>{"optimizer.lr", "best val accuracy", "best val loss", "last val loss"});
  CHECK(table.rows.at(1) == std::vector<std::string>{"0", "50.00 %", "", "1.0000"});
  CHECK(table.rows.at(2) == std::vector<std::string>{"1", "", "0.2500", "1.0000"});
  CHECK(!table.best);
  results.erase(results.begin() + 1);
  CHECK(table_of(results, "").best == 1);
}

}  // namespace lacuna::apps
