#include "apps/train/settle.h"

#include "apps/config/resolve.h"
#include "apps/output/output.h"
#include "apps/train/fit.h"
#include "apps/train/measure.h"
#include "apps/train/planning.h"
#include "apps/train/ranks.h"
#include "nn/weight_formats.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

namespace lacuna::apps {
namespace {

/// The experiment for a setup on `meta`, without offloading and with a number in the place of `auto`.
Experiment measurable(const Experiment& experiment, std::int64_t batch_size) {
  Experiment tried = experiment;
  tried.train.batch_size = batch_size;
  tried.memory.offload.clear();
  tried = resolve(std::move(tried));
  if (tried.memory.policy == "auto") tried.memory = budget_alone(tried.memory);
  return tried;
}

/// The budget for the device of `resolved`.
std::optional<std::int64_t> budget_on_device(const Experiment& experiment, Experiment resolved) {
  resolved.memory = experiment.memory;
  return memory_budget(resolved);
}

/// Bytes that the batch of `planned` takes of the budget, or of the device.
std::int64_t counted_bytes(const Experiment& experiment, const Measurement& planned) {
  return experiment.memory.budget_of == "saved" ? at(planned.memory, Purpose::saved) : highest_need(planned);
}

/// `resolved`: with the device in force.
std::int64_t limit_of(const Experiment& experiment, const Experiment& resolved) {
  const Configuration::Memory& memory = experiment.memory;
  const bool is_here = resolved.process.card || available_device(resolved) == device_of(resolved);
  if (!is_here && memory.budget.empty())
    reject("`auto` needs memory.budget here, since there is no {}", resolved.train.device);
  std::int64_t limit = is_here ? room_to_plan(resolved) : std::numeric_limits<std::int64_t>::max();
  if (const std::optional<std::int64_t> budget = budget_on_device(experiment, resolved))
    limit = std::min(limit, *budget - (memory.budget_of == "process" ? memory_beside_tensors() : 0));
  return limit;
}

/// Whether frozen weights are in few bits as model.from has them; refuses a model whose frozen weights cannot be.
bool holds_codes_where_frozen(const Experiment& experiment) {
  const Setup setup(experiment, Device::meta);
  std::vector<const Parameter*> frozen;
  for (const Parameter* const one : setup.classifier().parameters())
    if (!one->trainable() && may_be_coded(*one)) frozen.push_back(one);
  if (frozen.empty())
    reject(
        "freeze.weights: auto has no effect: no weight of a linear layer, a convolution or a table of {} elements or "
        "more is frozen; an adapter, freeze.train or freeze.freeze freezes weights",
        fewest_coded_elements);
  return std::ranges::any_of(frozen, [](const Parameter* one) { return one->tensor().is_coded(); });
}

void settle_weights(Experiment& experiment) {
  const std::int64_t unit = experiment.train.accumulate * experiment.process.ranks;
  const std::int64_t batch_size = experiment.train.batch_size == 0 ? unit : experiment.train.batch_size;
  experiment.freeze.weights.clear();
  const Experiment as_stored = measurable(experiment, batch_size);
  if (!budget_on_device(experiment, as_stored))
    reject("freeze.weights: auto chooses by memory.budget: expected one, or a type: {}",
           fmt::join(weight_types(), ", "));
  // A larger type than that of a folder in few bits would hold its values no better.
  const std::vector<std::string> types = holds_codes_where_frozen(as_stored)
                                             ? std::vector<std::string>{"as stored", "nf4"}
                                             : std::vector<std::string>{"f32", "bf16", "int8", "nf4"};
  std::string text;
  for (const std::string& type : types) {
    experiment.freeze.weights = type == "as stored" ? std::vector<std::string>() : std::vector{type};
    const Experiment tried = measurable(experiment, batch_size);
    const std::int64_t limit = limit_of(experiment, tried),
                       bytes = counted_bytes(experiment, measure(tried, Device::meta));
    text = fmt::format("{}: {} of {}", type, format_bytes(bytes), format_bytes(limit));
    if (bytes <= limit) break;
    if (type == "nf4" && experiment.memory.policy != "auto")
      reject("freeze.weights: auto: with nf4 training needs {}, and there are {}", format_bytes(bytes),
             format_bytes(limit));
  }
  print_error(fmt::format("lacuna: note: freeze.weights: auto is {}{}\n", text,
                          experiment.memory.policy == "auto" ? ", before memory.policy saves anything" : ""));
}

void settle_batch_size(Experiment& experiment) {
  const Configuration::Train& train = experiment.train;
  const std::int64_t unit =
      train.accumulate * experiment.process.ranks * (experiment.data.mix.any() ? 2 : 1);  // mixing pairs samples
  constexpr std::int64_t most = 1024, least_steps = 8;                                    // of an epoch
  const std::int64_t units = std::max<std::int64_t>(1, std::min(most, experiment.samples.size / least_steps) / unit);
  const Experiment smallest = measurable(experiment, unit);
  Setup setup(smallest, Device::meta);
  const std::int64_t limit = limit_of(experiment, smallest);
  const bool plans = experiment.memory.policy == "auto" && budget_on_device(experiment, smallest).has_value();
  const auto bytes_of = [&](std::int64_t count) {
    Experiment tried = smallest;
    tried.train.batch_size = count * unit;
    Experiment planned = tried;
    planned.memory = experiment.memory;
    if (plans && fills_device(planned)) return bytes_without_codes(setup, std::move(planned));
    const std::int64_t bytes = counted_bytes(experiment, measure(setup, tried));
    return bytes <= limit || !plans ? bytes : bytes_without_codes(setup, std::move(planned));
  };
  std::int64_t low = 1, high = units + 1, bytes = bytes_of(1);  // fits; does not
  if (bytes > limit && experiment.memory.policy != "auto")
    reject("train.batch_size: auto: a batch of {} needs {}, and there are {}", unit, format_bytes(bytes),
           format_bytes(limit));
  while (bytes <= limit && high - low > 1) {
    const std::int64_t middle = std::min(high - 1, high > units ? 2 * low : low + (high - low) / 2);
    const std::int64_t there = bytes_of(middle);
    if (there <= limit) bytes = there;
    (there <= limit ? low : high) = middle;
  }
  experiment.train.batch_size = low * unit;
  const std::string why = bytes > limit       ? "a plan with codes may fit"
                          : high <= units     ? fmt::format("{} more do not fit", unit)
                          : low * unit < most ? fmt::format("an eighth of {} samples", experiment.samples.size)
                                              : "the most that auto takes";
  print_error(fmt::format("lacuna: note: train.batch_size: auto is {} here: {} of {}; {}\n", low * unit,
                          format_bytes(bytes), format_bytes(limit), why));
}

void settle_offload_buffer(Experiment& experiment) {
  const Experiment tried = measurable(experiment, experiment.train.batch_size);
  constexpr std::int64_t least = 64 << 10, most = 256 << 20, parts = 8;
  const std::int64_t saved = at(measure(tried, Device::meta).memory, Purpose::saved);
  experiment.memory.offload_buffer = fmt::format("{}B", std::clamp(saved / parts, least, most));
}

}  // namespace

void settle_sizes(Experiment& experiment) {
  if (experiment.freeze.weights == std::vector{std::string(automatic_weights)}) settle_weights(experiment);
  if (experiment.train.batch_size == 0) settle_batch_size(experiment);
  if (!experiment.memory.offload.empty() && experiment.memory.offload_buffer == "auto")
    settle_offload_buffer(experiment);
}

void settle_sizes(Experiment& experiment, Communicator& ranks) {
  on_each(ranks, [&] {
    if (ranks.rank() == 0) settle_sizes(experiment);
  });
  if (ranks.size() == 1) return;
  experiment.train.batch_size = std::stoll(broadcast_text(ranks, std::to_string(experiment.train.batch_size)));
  experiment.memory.offload_buffer = broadcast_text(ranks, experiment.memory.offload_buffer);
  if (experiment.freeze.weights.size() == 1)
    experiment.freeze.weights.front() = broadcast_text(ranks, experiment.freeze.weights.front());
}

Experiment settled(Experiment experiment) {
  settle_sizes(experiment);
  return resolve(std::move(experiment));
}

}  // namespace lacuna::apps
