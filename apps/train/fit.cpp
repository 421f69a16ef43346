#include "apps/train/fit.h"

#include "apps/config/resolve.h"
#include "apps/train/measure.h"
#include "apps/train/planning.h"
#include "core/allocator.h"
#include "core/parallel.h"
#include "core/system_memory.h"
#include "data/loader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

namespace lacuna::apps {
namespace {

constexpr std::int64_t depth = LoaderOptions{}.depth;  // batches that a loader holds besides the one in use

/// Bytes that training takes, by a step on `meta`.
struct Need {
  std::int64_t bytes = 0;    // at its highest
  std::int64_t batches = 0;  // prepared ahead, for training and evaluation together
  bool evaluating = false;   // an evaluation takes more than a step
};

Need need_of(const Measurement& planned, bool with_loader) {
  if (!with_loader) return {planned.peak, 0};
  const std::int64_t step = step_need(planned), evaluation = evaluation_need(planned);
  return {std::max(step, evaluation), prefetched(planned) + depth * planned.evaluation_ahead, evaluation > step};
}

/// Bytes that training takes in bf16; nothing: it is not in f32 now, or its plan would be another one.
std::optional<std::int64_t> need_in_bf16(Experiment experiment, bool with_loader) {
  std::string& precision = experiment.train.precision;
  if ((precision != "f32" && precision != "tf32") || experiment.memory.policy == "auto") return {};
  precision = "bf16";
  const std::int64_t of_others = ledger(Device::meta).total();
  try {
    return need_of(measure(experiment, Device::meta), with_loader).bytes - of_others;
  } catch (const Error& error) {
    if (error.fault() != Fault::input) throw;
    return {};
  }
}

/// Who held what when the most was held: for an allocation that no tensor asked for.
std::string highest_holders(Device device) {
  const Ledger& account = ledger(device);
  return fmt::format("tensors held up to {}. The largest holders then:\n{}", format_bytes(account.peak()),
                     describe(account.holders_at_peak(), 8));
}

}  // namespace

void require_fit(Setup& setup, const Experiment& experiment, Device device, bool with_loader) {
  // oneDNN ends the process if no addresses are left for the code that it generates; it does so on `meta` too.
  constexpr std::int64_t generated_code = std::int64_t{48} << 20;
  if (const std::int64_t left = address_space_left(); left < generated_code)
    throw Error(Fault::run, fmt::format("out of memory: {} of the address space are left, and generated code "
                                        "takes up to {}: the limit on it (ulimit -v) is too low",
                                        format_bytes(left), format_bytes(generated_code)));
  const Measurement planned = measure(setup, experiment);
  const Need need = need_of(planned, with_loader);
  const std::int64_t available = room_for_training(experiment);
  if (need.bytes <= available) return;
  const std::optional<Card> card = card_of(experiment);
  const bool is_shared = card && need.bytes <= card->memory;
  // A run that this machine could never hold is wrong input; a limit on this process is not the configuration's fault.
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  const bool limited = (address_space_left() != none || data_left() != none) &&
                       need.bytes <= std::min(allocator(device).capacity(), available_memory());
  throw Error(
      limited ? Fault::run : Fault::input,
      fmt::format(
          "out of memory: training with batches of {} needs {} (a step {}, an evaluation {}), and {} has {} left for "
          "tensors{}. The largest holders at a step's peak:\n{}{}{}\nFewer parameters to train (freeze.train) need "
          "less too; `lacuna plan` says how much.",
          planned.batch_size, format_bytes(need.bytes), format_bytes(step_need(planned)),
          format_bytes(evaluation_need(planned)), name_of(device), format_bytes(available),
          limited ? " under the limits on the address space and on data (ulimit -v, -d)"
          : is_shared
              ? fmt::format(" of the card's {}: the driver{} and other programs (nvidia-smi names them) hold some",
                            format_bytes(card->memory), experiment.process.ranks > 1 ? ", NCCL" : "")
              : "",
          lacuna::describe(planned.at_peak, 8),
          with_loader ? fmt::format("Batches prepared ahead hold up to {} more.\n", format_bytes(need.batches)) : "",
          what_would_fit(setup, experiment, room_to_plan(experiment), with_loader, need.bytes)));
}

void require_fit_to_evaluate(const Experiment& experiment) {
  Experiment alone = experiment;
  alone.weights.clear();
  alone.freeze = {};
  alone.adapter = {};
  if (trains_on_features(alone)) alone.task = {};
  alone.memory = {};
  alone.plan.reset();
  alone.train.ema_decay = 0;
  alone.optimizer = {};
  alone.optimizer.name = "sgd";  // without momentum it has no state
  Setup setup(alone, Device::meta);
  const auto need = [&] {
    const EvaluationBytes bytes = measure_evaluation(setup, alone);
    return bytes.peak + depth * bytes.ahead;
  };
  const Device device = existing_device(experiment);
  const std::int64_t available = allocator(device).available(), whole = need();
  if (whole <= available) return;
  std::int64_t& size = alone.train.batch_size;
  std::int64_t fitting = 0;
  for (alone.train.accumulate = 1; fitting == 0 && size > 1;)
    if (size /= 2; need() <= available) fitting = size;
  reject("out of memory: evaluating batches of {} needs {}, and {} has {} left for tensors. {}",
         experiment.train.batch_size / experiment.train.accumulate, format_bytes(whole), name_of(device),
         format_bytes(available),
         fitting > 0 ? fmt::format("To fit: train.batch_size={} train.accumulate=1", fitting)
                     : "Not even one sample at a time fits");
}

std::int64_t room_on(const Card& card, int ranks) {
  // A driver's context takes about half of it; gaps in a captured step's memory have the rest.
  constexpr std::int64_t reserve = std::int64_t{1} << 30, of_nccl = std::int64_t{512} << 20;
  return std::max<std::int64_t>(0, card.memory - card_beside_tensors - reserve - (ranks > 1 ? of_nccl : 0));
}

std::int64_t room_for_training(const Experiment& experiment) {
  const Device device = existing_device(experiment);
  return allocator(device).available() / (device == Device::cpu ? experiment.process.on_machine : 1);
}

std::int64_t room_to_plan(const Experiment& experiment) {
  const std::optional<Card> card = card_of(experiment);
  if (!card) return room_for_training(experiment);
  const std::int64_t room = room_on(*card, experiment.process.ranks);
  return card->device ? std::min(room, room_for_training(experiment)) : room;
}

std::int64_t memory_beside_tensors() {
  const std::int64_t now = process_resident() - ledger(Device::cpu).total();
  constexpr std::int64_t unit = std::int64_t{8} << 20;  // so that a few pages more or less give no other plan
  return (now + growth_beside_tensors(threads()) + unit - 1) / unit * unit;
}

std::int64_t prefetched(const Measurement& planned) {
  // A stored sample of each worker is in the ledger as well: less than one in f32.
  return depth * planned.ahead + planned.workers * planned.batch / std::max<std::int64_t>(planned.batch_size, 1);
}

std::int64_t step_need(const Measurement& planned) { return planned.peak + prefetched(planned); }

std::int64_t evaluation_need(const Measurement& planned) {
  // The training loader waits while the evaluation's works.
  return planned.evaluation_peak + prefetched(planned) + depth * planned.evaluation_ahead;
}

std::int64_t highest_need(const Measurement& planned) { return need_of(planned, true).bytes; }

bool evaluation_is_highest(const Measurement& planned) { return need_of(planned, true).evaluating; }

std::string what_would_fit(Setup& setup, const Experiment& experiment, std::int64_t available, bool with_loader,
                           std::int64_t needed) {
  // A plan does not see that free blocks between others may be too small, which matters if addresses are limited.
  if (address_space_left() != std::numeric_limits<std::int64_t>::max()) available -= available / 5;
  std::string text = fmt::format("To fit {}:", format_bytes(available));
  // Halves a micro-batch until its step on `meta` fits. A step that is known to be far too large takes long.
  const auto add = [&](const char* key, std::int64_t Configuration::Train::*value, bool halves) {
    Experiment changed = experiment;
    Configuration::Train& train = changed.train;
    for (std::int64_t parts = 2;; parts *= 2) {
      train.*value = halves ? train.*value / 2 : train.*value * 2;
      constexpr std::int64_t most_parts = 64;  // a step on `meta` takes them one after the other
      if (!halves && train.accumulate > most_parts) return;
      if (train.batch_size < train.accumulate || train.batch_size % train.accumulate != 0) return;
      if (needed / parts > available) continue;
      try {
        const std::int64_t bytes = need_of(measure(setup, changed), with_loader).bytes;
        if (bytes > available) continue;
        text += fmt::format("\n  train.{}={}: {}, which fits", key, train.*value, format_bytes(bytes));
        return;
      } catch (const Error& error) {  // rules that hold a tensor of a whole batch may hold none of a smaller one
        if (error.fault() != Fault::input) throw;
      }
    }
  };
  if (const std::optional<std::int64_t> bytes = need_in_bf16(experiment, with_loader); bytes && *bytes <= available)
    text += fmt::format("\n  train.precision=bf16: {}, which fits", format_bytes(*bytes));
  add("batch_size", &Configuration::Train::batch_size, true);
  add("accumulate", &Configuration::Train::accumulate, false);
  constexpr std::int64_t mebibyte = 1 << 20, most_saved = 64;  // times: no plan takes so much less
  const std::int64_t budget = available / mebibyte * mebibyte;
  if (needed / most_saved > available || budget == 0) return text;
  const bool was_auto = experiment.memory.policy == "auto";
  const std::optional<Card> card = card_of(experiment);
  const bool is_whole_card = card && available == room_on(*card, experiment.process.ranks);
  const PlannerResult planned =
      plan_within(setup, experiment, is_whole_card ? std::string(whole_device) : fmt::format("{}B", budget));
  std::vector<std::string> keys;
  if (!was_auto) keys.emplace_back("memory.policy=auto");
  if (!is_whole_card)
    keys.push_back(fmt::format("memory.budget={}MiB", budget / mebibyte));
  else if (!experiment.memory.budget.empty())
    keys.push_back(fmt::format("memory.budget={}", whole_device));
  if (experiment.memory.budget_of != "peak") keys.emplace_back("memory.budget_of=peak");
  return text + fmt::format("\n  {}: {}{}", fmt::join(keys, " "),
                            planned.fits ? "plans memory within it, " : "too little, ", planned.plan.text);
}

void rethrow_with_advice(const Experiment& experiment, bool with_loader) {
  const auto report = [&](const std::string& message, std::int64_t available) {
    std::string advice;
    try {
      Setup setup(experiment, Device::meta);
      advice = what_would_fit(setup, experiment, available, with_loader);
    } catch (const std::exception&) {  // not even room for a plan
      advice = "A smaller train.batch_size, train.accumulate or another memory.policy needs less.";
    }
    fail("{}\n{}", message, advice);
  };
  const Device device = existing_device(experiment);
  const std::int64_t available = allocator(device).available();
  try {
    throw;
  } catch (const OutOfMemory& error) {
    report(error.what(), std::min(available, error.wanted() - 1));
  } catch (const std::bad_alloc&) {
    report("out of memory: the program asked for memory outside of tensors; " + highest_holders(device),
           std::min(available, ledger(device).peak()));
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_out_of_memory) throw;
    report(fmt::format("out of memory: oneDNN: {}; {}", error.what(), highest_holders(device)),
           std::min(available, ledger(device).peak()));
  }
  throw;
}

}  // namespace lacuna::apps
