#include "apps/train/budget.h"

#include "apps/config/resolve.h"
#include "apps/train/bit_allocation.h"
#include "apps/train/fit.h"
#include "apps/train/measure.h"
#include "apps/train/measured_rates.h"
#include "apps/train/memory_plan.h"
#include "apps/train/regions.h"
#include "apps/train/survey.h"
#include "autograd/plan/bit_allocation.h"
#include "core/allocator.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace lacuna::apps {
namespace {

/// Two digits, but all of those before the point.
std::string percent(double share) {
  return share < 0.1 ? fmt::format("{:.2g} %", 100 * share) : fmt::format("{:.0f} %", 100 * share);
}

/// A plan, and what it is expected to cost.
struct Prediction {
  MemoryPlan plan;
  double seconds = 0;   // of a step
  double variance = 0;  // of the gradient, by codes, relative to its square
  /// A gradient with so much more variance takes a step as much less far: the time for the same way.
  double cost() const { return seconds * (1 + variance); }
};

bool may_code(const Configuration::Memory& memory) {
  const auto codes = memory.options.find("codes");
  return codes == memory.options.end() || std::get<bool>(codes->second);
}

class Fitting {
 public:
  Fitting(Configuration& configuration, std::int64_t budget, const std::optional<Rates>& rates)
      : configuration_(configuration),
        budget_(budget),
        of_saved_(configuration.memory.budget_of == "saved"),
        survey_(survey(configuration, {})),
        choices_(survey_),
        derived_(rematerialized_tensors(configuration, {})),
        rates_(rates) {}

  void run(bool codes) {
    if (fits({})) return choose({});
    std::optional<Least> fewest;
    if (codes) fewest = this->least(true);
    if (const std::optional<Prediction> found = codes ? with_codes(*fewest) : without_codes()) return choose(*found);
    const Least least = codes ? *fewest : this->least(false);
    reject(
        "memory.budget: {} do not suffice for a training step with batches of {}: the least that auto comes to is {} "
        "({} bytes), with {} recomputed{}.{}",
        format_bytes(budget_), configuration_.train.batch_size, format_bytes(least.bytes), least.bytes,
        least.plan.recompute.empty() ? "nothing" : counted(std::ssize(least.plan.recompute), "region"),
        codes ? " and one bit an element" : "", what_takes_less(least.plan, codes));
  }

  struct Least {
    std::int64_t bytes = 0;
    MemoryPlan plan{};
  };
  /// The fewest bytes that plans of the fewest bits come to, or what the first comes to that fits the budget.
  Least least(bool codes) const {
    const int fewest = codes ? fewest_bits : exact_bits;
    Least least{.bytes = bytes_of({.bits = fewest}), .plan = {.bits = fewest}};
    std::vector<RegionPaths> choices;
    for (const RegionChoices::Whole& regions : choices_.wholes()) choices.push_back(regions.paths);
    const RegionPaths order = codes ? blocks_by_bytes() : RegionPaths();
    for (std::int64_t blocks = std::ssize(order) - 1; blocks > 0; --blocks)
      choices.push_back({order.begin(), order.begin() + blocks});
    for (const RegionPaths& recompute : choices) {
      if (least.bytes <= budget_) break;
      MemoryPlan plan{.bits = fewest, .recompute = recompute};
      const std::int64_t bytes = bytes_of(plan);
      if (bytes < least.bytes) least = {bytes, std::move(plan)};
    }
    return least;
  }

  /// Whether the plan that the configuration holds already is within the budget and its means, and makes as much of it
  /// as a new one would: so that a run that goes on under the same budget has the same plan. Says so.
  bool holds() {
    const Configuration::Memory& memory = configuration_.memory;
    const bool does_code =
        std::get<double>(memory.options.at("bits")) != exact_bits ||
        std::ranges::any_of(memory.rules, [](const HoldRule& rule) { return rule.how == HoldRule::How::quantize; });
    if (does_code && !may_code(memory)) return false;
    const std::optional<std::int64_t> planned = bytes_as_planned();
    if (!planned) return false;
    const std::int64_t bytes = *planned;
    const bool gives_up = does_code || !memory.recompute.empty();
    const auto left_over = memory.options.find("left_over");
    const bool as_planned = left_over != memory.options.end() &&
                            std::get<double>(left_over->second) >= static_cast<double>(budget_ - bytes);
    if (bytes > budget_ || (gives_up && (fits({}) || (!is_used(bytes) && !as_planned)))) return false;
    if (is_used(bytes)) configuration_.memory.options.erase("left_over");
    configuration_.memory.why = fmt::format("{}: as planned before: {}; {}", budget_text(),
                                            fmt::join(words_as_planned(), "; "), used_text(bytes));
    return true;
  }

 private:
  static constexpr int fewest_bits = 1;
  static constexpr int most_fitting = 4;       // choices of regions that cover the whole model and are worked out
  static constexpr std::int64_t quarters = 4;  // of the blocks, by which their number is raised

  /// What a plan comes to.
  struct Outcome {
    std::int64_t bytes = 0;
    double seconds = 0;  // of a step, but for codes
  };
  Outcome outcome(const MemoryPlan& plan) const {
    const PredictedStep step = predict_step(with(plan), rates());
    Outcome outcome{.bytes = used(step.measured), .seconds = step.seconds};
    for (const Rematerializable& tensor : derived_)
      if (std::ranges::find(plan.kept, tensor.name) == plan.kept.end())
        outcome.seconds += parts() * rates().deriving_seconds(tensor.bytes);
    return outcome;
  }
  /// Of a step, each of which codes and derives its own tensors: a survey sees those of one.
  double parts() const { return static_cast<double>(configuration_.train.accumulate); }
  /// By more than rounding.
  static bool is_less(double seconds, double than) { return seconds < than * (1 - 1e-9); }

  /// Those given; else of this machine, where a step runs on it and measuring keeps to the budget.
  const Rates& rates() const {
    if (!rates_)
      rates_ = device_of(configuration_) == Device::meta || bytes_for_measuring() < bytes_to_measure_rates()
                   ? Rates{}
                   : measured_rates();
    return *rates_;
  }

  /// What measuring may take: of the budget, and of what there is at the moment.
  std::int64_t bytes_for_measuring() const {
    const std::int64_t available = allocator(device_of(configuration_)).available();
    return of_saved_ ? available : std::min(budget_, available);
  }

  Configuration with(const MemoryPlan& plan) const {
    Configuration candidate = configuration_;
    write_plan(plan, candidate.memory);
    return candidate;
  }

  /// What else there is to change, where not even `least` fits.
  std::string what_takes_less(const MemoryPlan& least, bool codes) const {
    std::string text;
    const Measurement planned = measure(with(least), Device::meta);
    const bool evaluates = !of_saved_ && evaluation_is_highest(planned);
    if (!codes && !evaluates) text += " memory.codes: true may come to less.";
    if (configuration_.train.batch_size > configuration_.train.accumulate)
      text += " A larger train.accumulate or a smaller train.batch_size takes less.";
    if (of_saved_) return text;
    if (evaluates)
      text += " It is an evaluation that takes the most, of as many images at once as a part of a step has.";
    const Bytes& memory = planned.memory;
    const std::int64_t of_training = at(memory, Purpose::gradients) + at(memory, Purpose::optimizer);
    constexpr std::int64_t worth_saying = 20;  // a part of all
    if (of_training < used(planned) / worth_saying) return text;
    std::vector<std::string_view> ways;
    if (!configuration_.optimizer.in_backward && !evaluates) ways.push_back("optimizer.in_backward");
    if (configuration_.optimizer.state == "f32") ways.push_back("optimizer.state: int8");
    ways.push_back("a frozen part of the model");
    return text + fmt::format(" Parameters, gradients and the optimizer's state are {} of it: less with {}.",
                              format_bytes(at(memory, Purpose::parameters) + of_training), fmt::join(ways, " or "));
  }
  std::int64_t used(const Measurement& planned) const {
    return of_saved_ ? at(planned.memory, Purpose::saved) : highest_need(planned);
  }
  /// Of the plan that the configuration holds; nothing where its rules, or its regions, are not all of this step.
  std::optional<std::int64_t> bytes_as_planned() const {
    try {
      return used(measure(configuration_, Device::meta));
    } catch (const Error& error) {
      if (error.fault() != Fault::input) throw;
      return {};  // whatever else it may be is refused again when a plan is made
    }
  }
  std::int64_t bytes_of(const MemoryPlan& plan) const { return used(measure(with(plan), Device::meta)); }
  /// Whether so many bytes make enough of the budget.
  bool is_used(std::int64_t bytes) const { return static_cast<double>(bytes) >= 0.95 * static_cast<double>(budget_); }
  std::string budget_text() const {
    return fmt::format("budget of {} {}", format_bytes(budget_), of_saved_ ? "saved" : "in all");
  }
  std::string used_text(std::int64_t bytes) const {
    return fmt::format("{} used ({:.0f} %)", format_bytes(bytes),
                       100.0 * static_cast<double>(bytes) / static_cast<double>(budget_));
  }
  std::vector<std::string> words(const MemoryPlan& plan) const {
    return describe(plan, survey(configuration_, plan.recompute), choices_);
  }
  std::vector<std::string> words_as_planned() const {
    const StepSurvey found = survey(configuration_, configuration_.memory.recompute);
    return describe(read_plan(configuration_.memory, found), found, choices_);
  }
  bool fits(const MemoryPlan& plan) const { return bytes_of(plan) <= budget_; }

  /// What an error as large as the tensor would do to the gradient. Of a region's input it is that of the tensor which
  /// the region before gives when it saves all it needs; what was not measured counts by its size, at a usual rate.
  /// `found`: all that can be coded while its regions run again.
  double sensitivity_of(const Codable& tensor, const StepSurvey& found) const {
    const auto measured = [&](const SavedTensorName& name) -> std::optional<double> {
      const auto known = sensitivities_.find(name);
      return known == sensitivities_.end() ? std::nullopt : std::optional(known->second);
    };
    // Of all tensors together, the gradient's error under `fixed` with 4 bits (docs/compression.md): by row that of a
    // ViT, as it is that of ResNet-20.
    const double error = survey_.measure == ErrorMeasure::relative ? 0.2115 : 0.0697;
    const double usual = error * error / code_variance(4);
    // With nothing recomputed a mostly frozen model may have next to none, and inputs of regions be the first.
    const auto elements_of = [](const StepSurvey& step) {
      double elements = 0;
      for (const Codable& other : step.tensors) elements += static_cast<double>(other.elements);
      return elements;
    };
    const double elements = std::max(elements_of(survey_), elements_of(found));
    const double by_size = usual * static_cast<double>(tensor.elements) / elements;
    if (const auto own = measured(tensor.name)) return std::max(*own, least_share_of_usual * by_size);
    std::optional<double> last;
    for (const Codable& other : survey_.tensors)
      if (lies_in(other.name.first, tensor.name.first))
        if (const auto value = measured(other.name)) last = value;
    return last ? std::max(*last, least_share_of_usual * by_size) : by_size;
  }

  /// The least time and variance that fit while the regions run again; nothing where not even the fewest bits do.
  std::optional<Prediction> divided(const RegionPaths& recompute) const {
    const std::int64_t at_fewest = bytes_of({.bits = fewest_bits, .recompute = recompute});
    if (at_fewest > budget_) return {};
    const StepSurvey found = survey(configuration_, recompute);
    std::vector<Rematerializable> derived = rematerialized_tensors(configuration_, recompute);
    std::erase_if(derived, [&](const Rematerializable& tensor) {  // beside codes it may be one of those
      return std::ranges::find(found.tensors, tensor.name, &Codable::name) != found.tensors.end();
    });
    std::vector<double> sensitivity;
    for (const Codable& tensor : found.tensors) sensitivity.push_back(sensitivity_of(tensor, found));
    const BitAllocation allocation(found.tensors, sensitivity, std::move(derived), recompute);
    // Of saved bytes no more than what the fewest bits leave can fit.
    constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
    const std::int64_t most = of_saved_ ? allocation.fewest_bytes() + budget_ - at_fewest : unlimited;
    const auto fit = [this](const MemoryPlan& plan) { return fits(plan); };
    const auto suffice = [this](const MemoryPlan& plan) { return is_used(bytes_of(plan)); };
    Prediction prediction{.plan = allocation.plan(most, fit, suffice)};
    // Without tensors only images are left, which have 8 bits where anything is coded.
    if (found.tensors.empty() && !fits(prediction.plan)) prediction.plan.bits = fewest_bits;
    prediction.seconds = outcome({.recompute = recompute, .kept = prediction.plan.kept}).seconds;
    for (std::size_t i = 0; i < found.tensors.size(); ++i) {
      const int bits = prediction.plan.bits_of(found.tensors[i].name);
      prediction.seconds += parts() * rates().coding_seconds(found.tensors[i].bytes, bits);
      prediction.variance += sensitivity[i] * code_variance(bits);
    }
    return prediction;
  }

  /// The blocks that hold most first: they take about the same time.
  RegionPaths blocks_by_bytes() const {
    std::map<std::string, std::int64_t> held;
    for (const Codable& tensor : survey_.tensors)
      for (const std::string& block : choices_.blocks())
        if (lies_in(tensor.name.first, block)) held[block] += tensor.bytes;
    RegionPaths order = choices_.blocks();
    std::ranges::stable_sort(order, std::greater(), [&](const std::string& block) { return held[block]; });
    return order;
  }

  std::optional<Prediction> with_codes(const Least& least) {
    if (least.bytes > budget_) return without_codes();  // nothing need be measured
    const RegionPaths order = blocks_by_bytes();
    sensitivities_ = measure_sensitivities(configuration_, bytes_for_measuring());
    std::optional<Prediction> best;
    const auto consider = [&](std::optional<Prediction> found) {
      const bool better = found && (!best || found->cost() < best->cost());
      if (better) best = std::move(found);
      return better;
    };
    // How many: a quarter more and a quarter more, then by halves around the best; each number where none of those
    // fits.
    const std::int64_t all = std::ssize(order);
    std::int64_t count = 0;
    std::set<std::int64_t> tried;
    const auto consider_first = [&](std::int64_t blocks) {
      if (blocks < 0 || blocks > all || !tried.insert(blocks).second) return;
      if (consider(divided({order.begin(), order.begin() + blocks}))) count = blocks;
    };
    for (std::int64_t i = 0; i <= quarters; ++i) consider_first(all * i / quarters);
    for (std::int64_t step = (all + quarters - 1) / quarters; best && step > 1;) {
      step = (step + 1) / 2;
      for (const std::int64_t blocks : {count - step, count + step}) consider_first(blocks);
    }
    for (std::int64_t blocks = all - 1; !best && blocks > 0; --blocks) consider_first(blocks);
    consider(without_codes());
    // Then what else covers the whole model, the least work first. QuantizedTensor add to its time; what is kept takes
    // little off.
    std::vector<std::pair<double, RegionPaths>> others;
    for (RegionChoices::Whole& regions : choices_.wholes())
      if (regions.paths != choices_.blocks())
        others.emplace_back(outcome({.recompute = regions.paths}).seconds, std::move(regions.paths));
    std::ranges::stable_sort(others, {}, &std::pair<double, RegionPaths>::first);
    int fitting = 0;
    for (const auto& [seconds, regions] : others) {
      if (best && (fitting == most_fitting || seconds >= best->cost())) break;
      std::optional<Prediction> found = divided(regions);
      fitting += found ? 1 : 0;
      consider(std::move(found));
    }
    return best;
  }

  /// The least time of the plans that come from the first choices that fit. Longer regions hold less, so that fewer
  /// blocks may run again.
  std::optional<Prediction> without_codes() const {
    std::optional<Prediction> best;
    int fitting = 0;
    for (const RegionChoices::Whole& regions : choices_.wholes()) {
      if (fitting == most_fitting) break;
      if (!fits({.recompute = regions.paths})) continue;
      ++fitting;
      MemoryPlan plan = less_of(regions);
      const double seconds = outcome(plan).seconds;
      if (!best || is_less(seconds, best->seconds)) best = {.plan = std::move(plan), .seconds = seconds};
    }
    return best;
  }

  /// Of what covers the whole model as little as fits, and what is left of the budget made use of.
  MemoryPlan less_of(const RegionChoices::Whole& regions) const {
    MemoryPlan plan{.recompute = regions.paths};
    for (auto segment = regions.segments.rbegin(); segment != regions.segments.rend(); ++segment) {
      for (const RegionPaths& choice : choices_.less_than(*segment)) {
        MemoryPlan less{.recompute = RegionChange{.drop = {segment->path()}, .add = choice}.applied_to(plan.recompute)};
        if (!fits(less)) continue;
        plan = std::move(less);
        break;
      }
    }
    exchange(plan);
    keep_what_fits(plan);
    cut_what_fits(plan);
    keep_what_fits(plan);  // what runs less again may be derived
    return plan;
  }

  struct Trial {
    RegionPaths recompute;
    Outcome outcome;  // as expected
  };
  /// Of regions one is changed, or two, one for more bytes and one for fewer, as long as that makes a step shorter.
  void exchange(MemoryPlan& plan) const {
    constexpr std::ptrdiff_t rounds = 8, tries = 8;
    for (std::ptrdiff_t round = 0; round < rounds; ++round) {
      const Outcome now = outcome(plan);
      const std::vector<RegionChange> changes = choices_.changes(plan.recompute);
      std::vector<Trial> alone;
      for (const RegionChange& change : changes) {
        const RegionPaths recompute = change.applied_to(plan.recompute);
        alone.push_back({recompute, outcome({.recompute = recompute})});
      }
      std::vector<Trial> trials;
      const auto offer = [&](Trial trial) {
        if (trial.outcome.bytes <= budget_ && is_less(trial.outcome.seconds, now.seconds))
          trials.push_back(std::move(trial));
      };
      for (std::size_t i = 0; i < changes.size(); ++i) {
        offer(alone[i]);
        for (std::size_t j = 0; j < i; ++j)  // what two save adds up, about
          if (changes[i].site != changes[j].site)
            offer({changes[j].applied_to(alone[i].recompute),
                   {alone[i].outcome.bytes + alone[j].outcome.bytes - now.bytes,
                    alone[i].outcome.seconds + alone[j].outcome.seconds - now.seconds}});
      }
      std::ranges::stable_sort(trials, {}, [](const Trial& trial) { return trial.outcome.seconds; });
      if (std::ssize(trials) > tries) trials.resize(tries);
      const auto better = std::ranges::find_if(trials, [&](const Trial& trial) {
        const Outcome real = outcome({.recompute = trial.recompute});
        return real.bytes <= budget_ && is_less(real.seconds, now.seconds);
      });
      if (better == trials.end()) return;
      plan.recompute = better->recompute;
    }
  }

  /// What is left of the budget goes to tensors that need not be derived then, the largest first: deriving one takes a
  /// pass over as many bytes.
  void keep_what_fits(MemoryPlan& plan) const {
    std::vector<Rematerializable> derived = rematerialized_tensors(configuration_, plan.recompute);
    std::erase_if(derived, [&](const Rematerializable& tensor) {
      return std::ranges::find(plan.kept, tensor.name) != plan.kept.end();
    });
    std::ranges::stable_sort(derived, std::greater(), &Rematerializable::bytes);
    std::int64_t left = budget_ - bytes_of(plan);
    for (const Rematerializable& tensor : derived) {
      if (of_saved_ && tensor.bytes > left) continue;
      plan.kept.push_back(tensor.name);
      if (const std::int64_t bytes = bytes_of(plan); bytes <= budget_)
        left = budget_ - bytes;
      else
        plan.kept.pop_back();
    }
  }

  /// Ways to run less again, or less at once, that take more bytes and no more time, with what they come to; of a plan
  /// without codes.
  std::vector<Trial> larger(const MemoryPlan& plan) const {
    const Outcome now = outcome(plan);
    std::vector<Trial> found;
    for (const RegionChange& change : choices_.changes(plan.recompute)) {
      if (!change.only_less) continue;  // what is kept might be in what runs again
      const RegionPaths recompute = change.applied_to(plan.recompute);
      const Outcome then = outcome({.recompute = recompute, .kept = plan.kept});
      if (then.bytes > now.bytes && !is_less(now.seconds, then.seconds)) found.push_back({recompute, then});
    }
    return found;
  }

  /// Where much is left, regions of several blocks are cut: as much runs again, but less at once.
  void cut_what_fits(MemoryPlan& plan) const {
    while (!is_used(bytes_of(plan))) {
      std::vector<Trial> trials = larger(plan);
      std::erase_if(trials, [&](const Trial& trial) { return trial.outcome.bytes > budget_; });
      if (trials.empty()) return;
      plan.recompute =
          std::ranges::max_element(trials, {}, [](const Trial& trial) { return trial.outcome.bytes; })->recompute;
    }
  }

  /// The fewest bytes that something more would take: a tensor's next more bits, or what could be kept in place of
  /// running again or deriving; 0 where there is nothing.
  std::int64_t least_more(const MemoryPlan& plan) const {
    const std::int64_t now = bytes_of(plan);
    std::int64_t least = 0;
    const auto offer = [&](std::int64_t bytes) {
      if (bytes > now && (least == 0 || bytes - now < least)) least = bytes - now;
    };
    for (const Codable& tensor : survey(configuration_, plan.recompute).tensors)
      if (const auto next = std::ranges::upper_bound(bit_widths, plan.bits_of(tensor.name)); next != bit_widths.end()) {
        MemoryPlan more = plan;
        more.others[tensor.name] = *next;
        offer(bytes_of(more));
      }
    if (!plan.has_codes())
      for (const Trial& trial : larger(plan)) offer(trial.outcome.bytes);
    for (const Rematerializable& tensor : rematerialized_tensors(configuration_, plan.recompute)) {
      if (std::ranges::find(plan.kept, tensor.name) != plan.kept.end()) continue;
      MemoryPlan more = plan;
      more.kept.push_back(tensor.name);
      offer(bytes_of(more));
    }
    return least;
  }

  void choose(const Prediction& prediction) {
    const MemoryPlan& plan = prediction.plan;
    const std::int64_t bytes = bytes_of(plan);
    write_plan(plan, configuration_.memory);
    std::vector<std::string> how = words(plan);
    if (prediction.seconds > 0) {
      std::string expected = fmt::format("expected: a step of {:.2f} x the time of an exact one",
                                         prediction.seconds / outcome({}).seconds);
      if (prediction.variance > 0)
        expected += fmt::format(", {} more variance of the gradient{}", percent(prediction.variance),
                                sensitivities_.empty() ? " (by size, not measured)" : "");
      how.push_back(std::move(expected));
    }
    if (how.empty()) how.emplace_back("nothing to choose");
    std::string rest;
    if (!plan.has_codes() && plan.recompute.empty()) {
      rest = ": everything fits as it is";
    } else if (!is_used(bytes)) {
      configuration_.memory.options.insert_or_assign("left_over", static_cast<double>(budget_ - bytes));
      if (const std::int64_t more = least_more(plan); more > 0)
        rest = fmt::format(": of what {}, the least takes {} more",
                           plan.has_codes() ? "tensors could have besides" : "else could be kept as it is",
                           format_bytes(more));
    }
    configuration_.memory.why =
        fmt::format("{}: {}; {}{}", budget_text(), fmt::join(how, "; "), used_text(bytes), rest);
  }

  Configuration& configuration_;
  std::int64_t budget_;
  bool of_saved_;
  StepSurvey survey_;  // with nothing recomputed
  RegionChoices choices_;
  std::vector<Rematerializable> derived_;  // with nothing recomputed
  Sensitivities sensitivities_;
  mutable std::optional<Rates> rates_;  // measured when they are first asked for
};

}  // namespace

std::int64_t parse_bytes(const std::string& text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  constexpr Unit units[] = {{"", 1},         {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                            {"TiB", 0x1p40}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
  std::size_t end = 0;
  double number = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
  }
  const std::size_t unit_begin = std::min(text.find_first_not_of(' ', end), text.size());
  constexpr double least_meant = 4096;  // a `6` lacks its GiB, an `800` its MiB
  if (end > 0 && unit_begin == text.size() && (number != std::floor(number) || number < least_meant))
    reject(
        "memory.budget: expected bytes as 6GiB, 1.5GB or 800MiB, got {0}: a number without a unit is bytes; {0}B, if "
        "so few are meant",
        text);
  for (const Unit& unit : units)
    if (end > 0 && text.substr(unit_begin) == unit.name && number * unit.bytes >= 1 && number * unit.bytes < 0x1p62)
      return static_cast<std::int64_t>(number * unit.bytes);
  reject("memory.budget: expected bytes as 6GiB, 1.5GB or 800MiB, got {}", text);
}

std::int64_t least_need(const Configuration& configuration, std::int64_t enough) {
  Configuration candidate = configuration;
  candidate.memory.policy = "auto";
  return Fitting(candidate, enough, {}).least(may_code(candidate.memory)).bytes;
}

std::vector<std::string> recomputable_blocks(const Configuration& configuration) {
  std::vector<std::string> patterns;
  for (const Segment& sequence : survey(configuration, {}).sequences) patterns.push_back(sequence.sequence + ".*");
  return patterns;
}

void forget_plan(Configuration::Memory& memory) {
  memory.options.erase("bits");
  memory.options.erase("left_over");
  memory.rules.clear();
  memory.recompute.clear();
}

void take_plan(const Configuration::Memory& recorded, Configuration::Memory& memory) {
  const auto asked = [](Configuration::Memory of) {
    forget_plan(of);
    return of.options;
  };
  const bool planned = recorded.options.contains("bits"),
             open = !memory.options.contains("bits") && memory.rules.empty() && memory.recompute.empty();
  if (memory.policy != "auto" || recorded.policy != "auto" || !planned || !open || asked(recorded) != asked(memory))
    return;
  memory.options = recorded.options;
  memory.rules = recorded.rules;
  memory.recompute = recorded.recompute;
}

void fit_budget(Configuration& configuration, const std::optional<Rates>& rates) {
  Configuration::Memory& memory = configuration.memory;
  if (memory.policy != "auto") return;
  if (memory.budget.empty()) reject("memory.policy: auto needs memory.budget: how much memory there is, as 6GiB");
  if (memory.options.contains("bits")) {  // a run that goes on
    if (Fitting(configuration, parse_bytes(memory.budget), rates).holds()) return;
    forget_plan(memory);
  }
  if (!memory.rules.empty() || !memory.recompute.empty())
    reject("memory.policy: auto chooses `rules` and `recompute` itself: expected none");
  Fitting(configuration, parse_bytes(memory.budget), rates).run(may_code(memory));
}

}  // namespace lacuna::apps
