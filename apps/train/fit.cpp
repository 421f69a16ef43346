#include "apps/train/fit.h"

#include "apps/train/budget.h"
#include "apps/train/measure.h"
#include "core/allocator.h"
#include "core/system_memory.h"
#include "data/loader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <vector>

namespace lacuna::apps {
namespace {

/// What a plan says that training takes, in bytes.
struct Need {
  std::int64_t bytes = 0;    // at its highest
  std::int64_t batches = 0;  // prepared ahead, for training and evaluation together
  bool evaluating = false;   // an evaluation takes more than a step
};

Need need_of(const Measurement& planned, bool with_loader) {
  if (!with_loader) return {planned.peak, 0};
  constexpr std::int64_t depth = LoaderOptions{}.depth;  // batches that a loader holds besides the one in use
  // The training loader waits while the evaluation's works.
  // A stored sample of each worker is in the ledger as well: less than one in f32.
  const std::int64_t sample = planned.batch / std::max<std::int64_t>(planned.batch_size, 1);
  const std::int64_t training = depth * planned.batch + sample, ahead = training + depth * planned.evaluation_batch;
  const std::int64_t step = planned.peak + training, evaluation = planned.evaluation_peak + ahead;
  return {std::max(step, evaluation), ahead, evaluation > step};
}

/// How many times smaller codes, parts or recomputation make a step at best, about: beyond, no plan is worth its time.
constexpr std::int64_t most_saved = 64;

/// Tries variants of a configuration on `meta`.
class Alternatives {
 public:
  Alternatives(const Configuration& configuration, std::int64_t available, bool with_loader)
      : configuration_(configuration), available_(available), with_loader_(with_loader) {}

  std::string describe() const {
    const Configuration::Train& train = configuration_.train;
    std::string text = fmt::format("Plans for {}:", format_bytes(available_));
    // Of other batches it would make another plan: what this one's rules come to there says nothing.
    if (configuration_.memory.policy == "auto") return text + within_budget(std::min(most_saved, train.batch_size));
    const std::int64_t batch = largest_batch();
    text += batch > 0 ? fmt::format("\n  train.batch_size={} is the largest batch under memory.policy={}", batch,
                                    configuration_.memory.policy)
                      : fmt::format("\n  no batch fits under memory.policy={}", configuration_.memory.policy);
    if (batch * most_saved < train.batch_size) return text;
    for (std::int64_t parts = train.accumulate + 1; parts <= std::min(most_saved, train.batch_size); ++parts) {
      if (train.batch_size % parts != 0) continue;
      Configuration cut = configuration_;
      cut.train.accumulate = parts;
      if (const auto bytes = bytes_of(cut); !bytes || *bytes > available_) continue;
      text += line(fmt::format("train.accumulate={}", parts), cut);
      break;
    }
    if (configuration_.memory.policy != "mesa") text += line("memory.policy=mesa", with_codes());
    if (const std::vector<std::string> blocks = recomputable_blocks(configuration_); !blocks.empty()) {
      Configuration recomputing = configuration_;
      recomputing.memory.recompute = blocks;
      text += line(fmt::format("'memory.recompute=[\"{}\"]'", fmt::join(blocks, "\", \"")), recomputing);
    }
    const Configuration::Memory& memory = configuration_.memory;
    if (memory.rules.empty() && memory.recompute.empty() && memory.options.empty() && memory.budget_of == "peak")
      text += within_budget(train.accumulate);
    return text;
  }

 private:
  /// `auto` with what is available as its budget, in as few parts as that allows, `most_parts` at most. What it comes
  /// to it says when it is asked: here it may have to run a step first.
  std::string within_budget(std::int64_t most_parts) const {
    Configuration candidate = configuration_;
    forget_plan(candidate.memory);
    candidate.memory.budget_of = "peak";
    constexpr std::int64_t mebibyte = 1 << 20;
    const std::int64_t whole = available_ / mebibyte * mebibyte;
    for (std::int64_t& parts = candidate.train.accumulate; parts <= most_parts; ++parts) {
      if (candidate.train.batch_size % parts != 0 || least_need(candidate, whole) > whole) continue;
      std::string settings;
      if (parts != configuration_.train.accumulate) settings += fmt::format("train.accumulate={} ", parts);
      if (configuration_.memory.policy != "auto") settings += "memory.policy=auto ";
      settings += fmt::format("memory.budget={}MiB", whole / mebibyte);
      if (configuration_.memory.budget_of != "peak") settings += " memory.budget_of=peak";
      return fmt::format("\n  {} looks for bits and recomputation that fit", settings);
    }
    candidate.train.accumulate = configuration_.train.accumulate;
    return fmt::format("\n  memory.policy=auto: {} for batches of {} at the least: too much",
                       format_bytes(least_need(candidate, whole)), candidate.train.batch_size);
  }

  /// Nothing where the step is refused: rules that hold a tensor of the configuration's may hold none of a variant's.
  std::optional<std::int64_t> bytes_of(const Configuration& configuration) const {
    try {
      return need_of(measure(configuration, Device::meta), with_loader_).bytes;
    } catch (const Error& error) {
      if (error.fault() != Fault::input) throw;
      return {};
    }
  }

  std::string line(const std::string& setting, const Configuration& configuration) const {
    const std::optional<std::int64_t> bytes = bytes_of(configuration), before = bytes_of(configuration_);
    if (!bytes || (before && *bytes >= *before)) return {};
    return fmt::format("\n  {}: {} for batches of {}{}", setting, format_bytes(*bytes), configuration.train.batch_size,
                       *bytes <= available_ ? ", which fits" : ": too much");
  }

  Configuration with_codes() const {
    Configuration coded = configuration_;
    coded.memory.policy = "mesa";
    coded.memory.options.clear();  // they are the other policy's
    return coded;
  }

  /// In as many parts as the configuration says; 0 where none fits.
  std::int64_t largest_batch() const {
    const std::int64_t parts = configuration_.train.accumulate, most = configuration_.train.batch_size / parts;
    const auto bytes_with = [&](std::int64_t images) {
      Configuration smaller = configuration_;
      smaller.train.batch_size = images * parts;
      return bytes_of(smaller);
    };
    // Rules that hold nothing of a small batch may do so of a larger one.
    const auto fits = [&](std::int64_t images) {
      const auto bytes = bytes_with(images);
      return !bytes || *bytes <= available_;
    };
    std::int64_t low = 0, high = 1;  // from below: a plan takes longer the more images it is for
    while (high <= most && fits(high)) {
      low = high;
      high *= 2;
    }
    for (high = std::min(high - 1, most); low < high;) {
      const std::int64_t middle = (low + high + 1) / 2;
      if (fits(middle))
        low = middle;
      else
        high = middle - 1;
    }
    return low > 0 && bytes_with(low) ? low * parts : 0;
  }

  const Configuration& configuration_;
  std::int64_t available_;
  bool with_loader_;
};

/// Who held what when the most was held: for an allocation that no tensor asked for.
std::string highest_holders() {
  const Ledger& account = ledger(Device::cpu);
  return fmt::format("tensors held up to {}. The largest holders then:\n{}", format_bytes(account.peak()),
                     describe(account.holders_at_peak(), 8));
}

}  // namespace

void require_fit(const Configuration& configuration, Device device, bool with_loader) {
  // Where oneDNN has no addresses left for the code that it generates, it ends the process; it does so on `meta` too.
  constexpr std::int64_t generated_code = std::int64_t{48} << 20;
  if (const std::int64_t left = address_space_left(); left < generated_code)
    throw Error(Fault::run, fmt::format("out of memory: {} of the address space are left, and generated code "
                                        "takes up to {}: the limit on it (ulimit -v) is too low",
                                        format_bytes(left), format_bytes(generated_code)));
  const Measurement planned = measure(configuration, Device::meta);
  const Need need = need_of(planned, with_loader);
  const std::int64_t available = allocator(device).available();
  if (need.bytes <= available) return;
  // What no run on this machine could do is wrong input; a limit on this process is not the configuration's fault.
  const bool limited = need.bytes <= std::min(allocator(device).capacity(), available_memory());
  throw Error(
      limited ? Fault::run : Fault::input,
      fmt::format(
          "out of memory: training with batches of {} needs {}, and {} has {} left{}. The largest holders at a "
          "step's peak:\n{}{}{}\nFewer parameters to train (freeze.train) and train.precision: bf16 need less "
          "too; `lacuna plan` says how much.",
          planned.batch_size, format_bytes(need.bytes), name_of(device), format_bytes(available),
          limited ? " under the limit on the address space (ulimit -v)" : "", lacuna::describe(planned.at_peak, 8),
          with_loader ? fmt::format("Batches prepared ahead hold up to {} more.\n", format_bytes(need.batches)) : "",
          what_would_fit(configuration, available, with_loader)));
}

std::int64_t highest_need(const Measurement& planned) { return need_of(planned, true).bytes; }

bool evaluation_is_highest(const Measurement& planned) { return need_of(planned, true).evaluating; }

std::string what_would_fit(const Configuration& configuration, std::int64_t available, bool with_loader) {
  // Where addresses are limited, free blocks that lie between others are too small for some: a plan does not see those.
  const bool limited = address_space_left() != std::numeric_limits<std::int64_t>::max();
  return Alternatives(configuration, limited ? available - available / 8 : available, with_loader).describe();
}

void rethrow_with_advice(const Configuration& configuration, bool with_loader) {
  const auto report = [&](const std::string& message, std::int64_t available) {
    std::string advice;
    try {
      advice = what_would_fit(configuration, available, with_loader);
    } catch (const std::exception&) {  // not even room for a plan
      advice = "A smaller train.batch_size, train.accumulate or another memory.policy needs less.";
    }
    fail("{}\n{}", message, advice);
  };
  const std::int64_t available = allocator(Device::cpu).available();
  try {
    throw;
  } catch (const OutOfMemory& error) {
    report(error.what(), std::min(available, error.wanted() - 1));
  } catch (const std::bad_alloc&) {
    report("out of memory: the program asked for memory outside of tensors; " + highest_holders(),
           std::min(available, ledger(Device::cpu).peak()));
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_out_of_memory) throw;
    report(fmt::format("out of memory: oneDNN: {}; {}", error.what(), highest_holders()),
           std::min(available, ledger(Device::cpu).peak()));
  }
  throw;
}

}  // namespace lacuna::apps
