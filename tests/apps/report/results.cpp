#include "apps/report/results.h"

#include <doctest/doctest.h>

namespace lacuna::apps {

TEST_CASE("results: a label leaves out what is empty, and gives a key to what does not show its meaning") {
  std::vector<Result> results(2);
  results[0].settings = {{"train.epochs", 2},
                         {"optimizer.groups", "[]"},
                         {"memory.policy", "adaptive"},
                         {"memory.budget", ""},
                         {"memory.recompute", "[]"},
                         {"memory.bits", 2.5},
                         {"freeze.train", "[\"head*\"]"},
                         {"memory.codes", nullptr},
                         {"train.precision", "bf16"}};
  results[1].settings = {{"train.epochs", 3},       {"optimizer.groups", "[{lr: 1}]"}, {"memory.policy", "auto"},
                         {"memory.budget", "6GiB"}, {"memory.recompute", "[x]"},       {"memory.codes", "true"},
                         {"freeze.train", "[]"}};
  set_labels(results);
  CHECK(results[0].label == "epochs 2 · adaptive · bits 2.5 · train [\"head*\"] · precision bf16");
  CHECK(results[1].label == "epochs 3 · groups [{lr: 1}] · auto · budget 6GiB · recompute [x] · codes true");
  CHECK(phrase_of("memory", "{policy: fixed, bits: 4}") == "{policy: fixed, bits: 4}");
}

TEST_CASE("results: a short label begins with what tells memory, and has of the rest what tells results apart") {
  std::vector<Result> results(3);
  const auto settings = [](int depth, int batch, double lr, const char* freeze, const char* policy, const char* state) {
    return decltype(Result::settings){{"model.depth", depth},      {"model.num_heads", depth}, {"data.augment", "flip"},
                                      {"train.batch_size", batch}, {"train.seed", batch},      {"optimizer.lr", lr},
                                      {"freeze.train", freeze},    {"memory.policy", policy},  {"state", state}};
  };
  const char* const patterns = "[\"blocks.1*\", \"blocks.2*\", \"head*\"]";
  results[0].settings = settings(4, 8, 0.1, patterns, "exact", "finished");
  results[1].settings = settings(4, 8, 0.2, patterns, "fixed", "finished");
  results[1].settings.insert(results[1].settings.end() - 1, {"memory.bits", 4});
  results[2].settings = settings(6, 16, 0.2, "[]", "exact", "unfinished");
  set_short_labels(results);
  CHECK(results[0].label == "exact · depth 4 · num_heads 4 · batch_size 8");
  CHECK(results[1].label == "fixed · bits 4 · depth 4 · num_heads 4 · batch_size 8");
  CHECK(results[2].label == "exact · depth 6 · num_heads 6 · batch_size 16");
  // A learning rate that alone tells two apart comes before what stands in front of it.
  results[2].settings = settings(4, 8, 0.2, "[]", "exact", "unfinished");
  results[1].settings = settings(6, 16, 0.2, patterns, "fixed", "finished");
  set_short_labels(results);
  CHECK(results[0].label == "exact · depth 4 · batch_size 8 · lr 0.1");
  CHECK(results[2].label == "exact · depth 4 · batch_size 8 · lr 0.2");
  // What is long is left out, but where nothing else tells apart.
  results.resize(2);
  results[1].settings = results[0].settings;
  results[1].settings[6].second = "[]";
  set_short_labels(results);
  CHECK(results[0].label == std::string("train ") + patterns);
  CHECK(results[1].label.empty());
}

}  // namespace lacuna::apps
