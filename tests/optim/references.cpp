// Trajectories and learning rates against those of torch, timm and transformers (references.txt, written by
// make_references.py).
#include "optim/schedule.h"
#include "optim/step.h"
#include "tests/optim/two_parameters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

using namespace lacuna;

namespace {

/// A line `KIND NAME key value ...` of the file with the rows of numbers below it.
struct Reference {
  std::string kind, name;
  std::map<std::string, std::string> words;
  std::vector<std::vector<double>> rows;

  double take(const std::string& key) {
    const double value = std::stod(words.at(key));
    words.erase(key);
    return value;
  }
  /// The remaining values, with the types of `known`.
  OptionValues settings(const Options& known) const {
    OptionValues values;
    for (const Field& field : known.fields()) {
      const auto word = words.find(std::string(field.name));
      if (word == words.end()) continue;
      if (std::isalpha(static_cast<unsigned char>(word->second.front())) != 0) {
        values.emplace(field.name, word->second);
      } else if (field.codec == &codec_of<bool>()) {
        values.emplace(field.name, std::stod(word->second) != 0);
      } else if (field.codec != &codec_of<std::vector<double>>()) {
        values.emplace(field.name, std::stod(word->second));
      } else {
        std::vector<double> numbers;
        std::stringstream list(word->second);
        for (std::string number; std::getline(list, number, ',');) numbers.push_back(std::stod(number));
        values.emplace(field.name, numbers);
      }
    }
    REQUIRE(values.size() == words.size());
    return values;
  }
};

std::vector<Reference> references(const std::string& kind) {
  std::ifstream file(LACUNA_SOURCE_DIR "/tests/optim/references.txt");
  REQUIRE(file);
  std::vector<Reference> all;
  for (std::string line; std::getline(file, line);) {
    std::stringstream words(line);
    if (std::isalpha(static_cast<unsigned char>(line.front())) != 0) {
      Reference& reference = all.emplace_back();
      words >> reference.kind >> reference.name;
      for (std::string key, value; words >> key >> value;) reference.words[key] = value;
    } else {
      std::vector<double>& row = all.back().rows.emplace_back();
      for (double value = 0; words >> value;) row.push_back(value);
    }
  }
  std::erase_if(all, [&](const Reference& reference) { return reference.kind != kind; });
  return all;
}

}  // namespace

TEST_CASE("trajectories of 20 steps equal those of torch.optim, timm.optim and transformers") {
  for (Reference& reference : references("optimizer")) {
    CAPTURE(reference.name);
    const double lr = reference.take("lr");
    const Clipping clipping{.norm = reference.take("max_norm"),
                            .parameter_norm = reference.take("parameter_norm"),
                            .value = reference.take("value")};
    const bool bf16_gradients = reference.take("bf16") != 0, falls = reference.take("falls") != 0;
    TwoParameters model(Device::cpu, static_cast<std::int64_t>(reference.take("rows")),
                        static_cast<std::int64_t>(reference.take("columns")));
    const auto optimizer =
        make_optimizer(reference.name, reference.settings(optimizers().get(reference.name).options), model);
    REQUIRE(reference.rows.size() == 20);
    double largest = 0, difference = 0;
    for (int step = 0; step < 20; ++step) {
      model.set_gradients(step, bf16_gradients ? DType::bf16 : DType::f32);
      const std::vector<Parameter*> parameters = model.parameters();
      OptimizerStep update(*optimizer, parameters, falls ? lr * (1 - step / 40.0) : lr, clipping);
      update.measure(parameters);
      update.apply(parameters);
      const std::vector<double> now = model.values();
      const std::vector<double>& expected = reference.rows[static_cast<std::size_t>(step)];
      REQUIRE(now.size() == expected.size());
      for (std::size_t i = 0; i < now.size(); ++i) {
        largest = std::max(largest, std::abs(expected[i]));
        difference = std::max(difference, std::abs(now[i] - expected[i]));
      }
    }
    CHECK(difference <= 1e-6 * largest);
  }
}

TEST_CASE("every optimizer and every schedule but the constant one has a reference") {
  for (const auto& [kind, names] : {std::pair{"optimizer", optimizers().names()}, {"schedule", schedules().names()}}) {
    const std::vector<Reference> known = references(kind);
    for (const std::string& name : names)
      CHECK_MESSAGE(
          (name == "constant" || std::ranges::any_of(known, [&](const Reference& r) { return r.name == name; })), name);
  }
}

TEST_CASE("learning rates equal those of torch, timm and transformers, in any order of steps") {
  for (Reference& reference : references("schedule")) {
    CAPTURE(reference.name);
    const ScheduleRun run{.lr = reference.take("lr"),
                          .total_steps = static_cast<std::int64_t>(reference.take("total_steps")),
                          .steps_per_epoch = static_cast<std::int64_t>(reference.take("steps_per_epoch"))};
    const Schedule schedule =
        make_schedule(reference.name, reference.settings(schedules().get(reference.name).options), run);
    const std::vector<double>& expected = reference.rows.at(0);
    REQUIRE(expected.size() == static_cast<std::size_t>(run.total_steps));
    for (std::size_t step = expected.size(); step-- > 0;)
      CHECK(schedule(static_cast<std::int64_t>(step)) == doctest::Approx(expected[step]).epsilon(1e-12));
  }
}
