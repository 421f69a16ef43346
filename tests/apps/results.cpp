#include "apps/results.h"

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

}  // namespace lacuna::apps
