#include "apps/train/fit.h"

#include "apps/config/resolve.h"
#include "apps/train/measure.h"
#include "core/allocator.h"
#include "core/parallel.h"
#include "core/system_memory.h"
#include "data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>

namespace lacuna::apps {
namespace {

constexpr std::int64_t depth = LoaderOptions{}.depth;  // batches that a loader holds besides the one in use

/// What a step on `meta` says that training takes, in bytes.
struct Need {
  std::int64_t bytes = 0;    // at its highest
  std::int64_t batches = 0;  // prepared ahead, for training and evaluation together
  bool evaluating = false;   // an evaluation takes more than a step
};

Need need_of(const Measurement& planned, bool with_loader) {
  if (!with_loader) return {planned.peak, 0};
  const std::int64_t step = planned.peak + prefetched(planned), evaluation = evaluation_need(planned);
  return {std::max(step, evaluation), prefetched(planned) + depth * planned.evaluation_ahead, evaluation > step};
}

/// Asks one step on `meta` each whether changes to a configuration make it fit.
class Advice {
 public:
  /// `needed`: by the configuration as it is; 0 if it is not known.
  Advice(const Configuration& configuration, std::int64_t available, bool with_loader, std::int64_t needed)
      : configuration_(configuration),
        available_(available),
        with_loader_(with_loader),
        needed_(needed),
        setup_(configuration, Device::meta) {}

  std::string text() {
    std::string text = fmt::format("To fit {}:", format_bytes(available_));
    const Configuration::Train& train = configuration_.train;
    Configuration fewer = configuration_;
    do fewer.train.batch_size /= 2;
    while (is_divisible(fewer.train) && !fits(fewer, train.batch_size / fewer.train.batch_size));
    if (is_divisible(fewer.train)) text += line(fmt::format("train.batch_size={}", fewer.train.batch_size), fewer);
    Configuration cut = configuration_;
    do cut.train.accumulate *= 2;
    while (is_divisible(cut.train) && !fits(cut, cut.train.accumulate / train.accumulate));
    if (is_divisible(cut.train) && train.batch_size > 1)
      text += line(fmt::format("train.accumulate={}", cut.train.accumulate), cut);
    return text + budget();
  }

 private:
  /// By a further halving.
  static bool is_divisible(const Configuration::Train& train) {
    return train.batch_size >= train.accumulate && train.batch_size % train.accumulate == 0;
  }

  /// With micro-batches that are `parts` times smaller.
  bool fits(const Configuration& configuration, std::int64_t parts) {
    return needed_ / parts <= available_ && bytes_of(configuration) <= available_;  // a huge step on `meta` takes long
  }

  std::int64_t bytes_of(const Configuration& configuration) {
    try {
      return need_of(measure(setup_, configuration), with_loader_).bytes;
    } catch (const Error& error) {  // rules that hold a tensor of a whole batch may hold none of a smaller one
      if (error.fault() != Fault::input) throw;
      return std::numeric_limits<std::int64_t>::max();
    }
  }

  std::string line(const std::string& setting, const Configuration& configuration) {
    const std::int64_t bytes = bytes_of(configuration);
    if (bytes == std::numeric_limits<std::int64_t>::max()) return {};
    return fmt::format("\n  {}: {}{}", setting, format_bytes(bytes),
                       bytes <= available_ ? ", which fits" : ", too much");
  }

  /// A budget for `auto`, where a step fits whose blocks are all recomputed in one bit an element.
  std::string budget() {
    constexpr std::int64_t most_saved = 64;  // times: no plan takes so much less
    if (needed_ / most_saved > available_) return {};
    Configuration smallest = configuration_;
    smallest.memory = {};
    smallest.memory.policy = "fixed";
    smallest.memory.options = {{"bits", 1.0}};
    smallest.memory.recompute = {"*.*"};
    constexpr std::int64_t mebibyte = 1 << 20;
    const std::int64_t whole = available_ / mebibyte * mebibyte;
    setup_.set_policy(make_memory_policy(smallest.memory, Device::meta));
    std::int64_t bytes = bytes_of(smallest);
    if (bytes == std::numeric_limits<std::int64_t>::max()) {  // a model without blocks
      smallest.memory.recompute.clear();
      setup_.set_policy(make_memory_policy(smallest.memory, Device::meta));
      bytes = bytes_of(smallest);
    }
    std::string settings;
    if (configuration_.memory.policy != "auto") settings += "memory.policy=auto ";
    settings += fmt::format("memory.budget={}MiB", whole / mebibyte);
    if (configuration_.memory.budget_of != "peak") settings += " memory.budget_of=peak";
    return fmt::format("\n  {}: {}{}", settings,
                       bytes <= whole ? "plans memory within it; the smallest plan takes about " : "too little: about ",
                       format_bytes(bytes));
  }

  const Configuration& configuration_;
  std::int64_t available_;
  bool with_loader_;
  std::int64_t needed_;
  Setup setup_;
};

/// Who held what when the most was held: for an allocation that no tensor asked for.
std::string highest_holders(Device device) {
  const Ledger& account = ledger(device);
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
  // Of several processes on this machine each has a part of its memory, or a GPU.
  const std::int64_t available =
      allocator(device).available() / (device == Device::cpu ? configuration.ranks.on_machine : 1);
  if (need.bytes <= available) return;
  // What no run on this machine could do is wrong input; a limit on this process is not the configuration's fault.
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  const bool limited = (address_space_left() != none || data_left() != none) &&
                       need.bytes <= std::min(allocator(device).capacity(), available_memory());
  throw Error(
      limited ? Fault::run : Fault::input,
      fmt::format(
          "out of memory: training with batches of {} needs {}, and {} has {} left for tensors{}. The largest holders "
          "at a step's peak:\n{}{}{}\nFewer parameters to train (freeze.train) and train.precision: bf16 need less "
          "too; `lacuna plan` says how much.",
          planned.batch_size, format_bytes(need.bytes), name_of(device), format_bytes(available),
          limited ? " under the limits on the address space and on data (ulimit -v, -d)" : "",
          lacuna::describe(planned.at_peak, 8),
          with_loader ? fmt::format("Batches prepared ahead hold up to {} more.\n", format_bytes(need.batches)) : "",
          what_would_fit(configuration, available, with_loader, need.bytes)));
}

void require_fit_to_evaluate(const Configuration& configuration) {
  Configuration alone = configuration;
  alone.model.from.clear();
  alone.freeze = {};
  alone.adapter = {};
  if (trains_on_features(alone)) alone.task = {};
  alone.memory = {};
  alone.train.ema_decay = 0;
  alone.optimizer = {};
  alone.optimizer.name = "sgd";  // without momentum it has no state
  Setup setup(alone, Device::meta);
  const auto need = [&] {
    const EvaluationBytes bytes = measure_evaluation(setup, alone);
    return bytes.peak + depth * bytes.ahead;
  };
  const Device device = existing_device(configuration);
  const std::int64_t available = allocator(device).available(), whole = need();
  if (whole <= available) return;
  std::int64_t& size = alone.train.batch_size;
  std::int64_t fitting = 0;
  for (alone.train.accumulate = 1; fitting == 0 && size > 1;)
    if (size /= 2; need() <= available) fitting = size;
  reject("out of memory: evaluating batches of {} needs {}, and {} has {} left for tensors. {}",
         configuration.train.batch_size / configuration.train.accumulate, format_bytes(whole), name_of(device),
         format_bytes(available),
         fitting > 0 ? fmt::format("To fit: train.batch_size={} train.accumulate=1", fitting)
                     : "Not even one sample at a time fits");
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

std::int64_t evaluation_need(const Measurement& planned) {
  // The training loader waits while the evaluation's works.
  return planned.evaluation_peak + prefetched(planned) + depth * planned.evaluation_ahead;
}

std::int64_t highest_need(const Measurement& planned) { return need_of(planned, true).bytes; }

bool evaluation_is_highest(const Measurement& planned) { return need_of(planned, true).evaluating; }

std::string what_would_fit(const Configuration& configuration, std::int64_t available, bool with_loader,
                           std::int64_t needed) {
  // Where addresses are limited, free blocks that lie between others are too small for some: a plan does not see those.
  const bool limited = address_space_left() != std::numeric_limits<std::int64_t>::max();
  return Advice(configuration, limited ? available - available / 8 : available, with_loader, needed).text();
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
  const Device device = existing_device(configuration);
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
