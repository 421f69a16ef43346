// Kinds of steps of a tokenizer: normalizers, pre-tokenizers, models, decoders. Each file registers its own.
#pragma once

#include "core/registry.h"
#include "data/text/tokenizers/json_reader.h"

#include <memory>

namespace lacuna {

/// Makes a step from its object in tokenizer.json; null: a step that does nothing.
template <class Step>
using StepReader = std::unique_ptr<const Step> (*)(const JsonReader& object);

/// The readers of a kind of step by the `type` in tokenizer.json. `Step::key` is the member of tokenizer.json.
template <class Step>
Registry<StepReader<Step>>& step_readers() {
  static Registry<StepReader<Step>> registry(Step::key);
  return registry;
}

template <class Step>
struct RegisterStep {
  RegisterStep(std::string_view type, StepReader<Step> reader) { step_readers<Step>().add(type, reader); }
};

/// Reads one step of the given type. Messages about it name the type.
template <class Step>
std::unique_ptr<const Step> read_step(const JsonReader& object, const std::string& type) {
  const Registry<StepReader<Step>>& readers = step_readers<Step>();
  if (!readers.contains(type)) {
    std::string known;
    for (const std::string& name : readers.names()) known += (known.empty() ? "" : ", ") + name;
    reject("{}: {} of type {} is not supported; supported are {}", object.place(), Step::key,
           type.empty() ? "none" : type, known);
  }
  return readers.get(type)(JsonReader(object.value(), fmt::format("{} ({})", object.place(), type)));
}

/// Calls `f(object, type)` for the step `key`, or for each step of a Sequence, whose list is named `steps`.
template <class F>
void each_step(const JsonReader& parent, const char* key, const char* steps, F&& f) {
  if (parent.find(key) == nullptr) return;
  const auto visit = [&](const auto& self, const JsonReader& object, int level) -> void {
    const std::string type = object.text("type", "");
    if (type != "Sequence") return f(object, type);
    if (level == 8) reject("{}: expected sequences 8 deep at most", object.place());
    for (const nlohmann::json& one : object.list(steps)) self(self, JsonReader(one, object.place()), level + 1);
  };
  visit(visit, parent.inner(key), 0);
}

/// Reads the steps of a section of tokenizer.json in order.
template <class Step>
std::vector<std::unique_ptr<const Step>> read_steps(const JsonReader& root) {
  std::vector<std::unique_ptr<const Step>> steps;
  each_step(root, Step::key, Step::list_key, [&](const JsonReader& object, const std::string& type) {
    if (auto step = read_step<Step>(object, type)) steps.push_back(std::move(step));
  });
  return steps;
}

}  // namespace lacuna
