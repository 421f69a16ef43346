#include "apps/budget.h"

#include "apps/fit.h"
#include "apps/measure.h"
#include "apps/resolve.h"
#include "apps/survey.h"
#include "autograd/bit_plan.h"
#include "core/allocator.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace lacuna::apps {
namespace {

bool lies_in(const std::string& path, const std::string& region) {
  if (path == region || path.starts_with(region + ".")) return true;
  const std::optional<BlockRun> run = parse_block_run(region);
  if (!run) return false;
  for (std::int64_t i = run->first; i <= run->last; ++i)
    if (lies_in(path, fmt::format("{}.{}", run->sequence, i))) return true;
  return false;
}

std::vector<std::string> paths_of(const std::vector<Segment>& segments) {
  std::vector<std::string> paths;
  for (const Segment& segment : segments) paths.push_back(segment.path());
  return paths;
}

/// As `1 region` and `2 regions`.
std::string counted(std::ptrdiff_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// Two digits, but all of those before the point.
std::string percent(double share) {
  return share < 0.1 ? fmt::format("{:.2g} %", 100 * share) : fmt::format("{:.0f} %", 100 * share);
}

/// How tensors are held, and what runs again.
struct Plan {
  int bits = exact_bits;             // of tensors that can be coded
  std::map<SlotName, int> others{};  // of those that have another number
  std::vector<std::string> recompute{};
  std::vector<SlotName> kept{};  // though they could be derived
};

/// A plan, and what it is expected to cost.
struct Prediction {
  Plan plan;
  double seconds = 0;   // of a step
  double variance = 0;  // of the gradient, by codes, relative to its square
  /// A gradient with so much more variance takes a step as much less far: the time for the same way.
  double cost() const { return seconds * (1 + variance); }
};

class Fitting {
 public:
  Fitting(Configuration& configuration, std::int64_t budget)
      : configuration_(configuration),
        budget_(budget),
        of_saved_(configuration.memory.budget_of == "saved"),
        survey_(survey(configuration, {})) {
    for (const std::string& region : survey_.regions) {
      const bool inner =
          std::ranges::any_of(blocks_, [&](const std::string& block) { return region.starts_with(block + "."); });
      (inner ? parts_ : blocks_).push_back(region);
    }
    // Frozen blocks before the first that trains are no regions.
    for (Segment& sequence : survey_.sequences)
      while (sequence.count > 0 && std::ranges::find(blocks_, sequence.block(0)) == blocks_.end())
        sequence = sequence.part(1, sequence.count - 1);
    std::erase_if(survey_.sequences, [](const Segment& sequence) { return sequence.count == 0; });
    for (const Segment& sequence : survey_.sequences) longest_ = std::max(longest_, sequence.count);
  }

  void run(bool codes) {
    const Plan exact;
    if (fits(exact)) return choose({.plan = exact});
    if (codes ? with_codes() : without_codes()) return;
    const int fewest = codes ? fewest_bits : exact_bits;
    std::int64_t least = bytes_of({.bits = fewest});
    std::ptrdiff_t regions_of_least = 0;
    for (const Regions& regions : all_regions()) {
      const std::int64_t bytes = bytes_of({.bits = fewest, .recompute = regions.paths});
      if (bytes < least) regions_of_least = std::ssize(regions.paths);
      least = std::min(least, bytes);
    }
    reject(
        "memory.budget: {} do not suffice for a training step with batches of {}: the least that auto comes to is {} "
        "({} bytes), with {} recomputed{}.{}",
        format_bytes(budget_), configuration_.train.batch_size, format_bytes(least), least,
        regions_of_least == 0 ? "nothing" : counted(regions_of_least, "region"),
        codes ? " and one bit an element" : "; memory.codes: true may come to less", what_takes_less());
  }

  /// Whether the plan that the configuration holds already is within the budget and its means, and the budget is not a
  /// larger one by now, of which a plan would make more; says so.
  bool holds() {
    const Configuration::Memory& memory = configuration_.memory;
    const auto codes = memory.options.find("codes");
    const bool may_code = codes == memory.options.end() || std::get<bool>(codes->second);
    const bool does_code =
        std::get<double>(memory.options.at("bits")) != exact_bits ||
        std::ranges::any_of(memory.rules, [](const HoldRule& rule) { return rule.how == HoldRule::How::code; });
    if (does_code && !may_code) return false;
    const std::int64_t bytes = used(configuration_);
    const bool gives_up = does_code || !memory.recompute.empty();
    if (bytes > budget_ || (gives_up && (fits({}) || bytes < budget_ / 10 * 9))) return false;
    configuration_.memory.why = fmt::format("{}: as planned before; {}", budget_text(), used_text(bytes));
    return true;
  }

 private:
  static constexpr int fewest_bits = 1;

  void write(const Plan& plan, Configuration& configuration) const {
    Configuration::Memory& memory = configuration.memory;
    memory.options.insert_or_assign("bits", static_cast<double>(plan.bits));
    memory.recompute = plan.recompute;
    memory.rules.clear();
    const auto group_size = memory.options.find("group_size");
    for (const auto& [name, bits] : plan.others) {
      HoldRule& rule = memory.rules.emplace_back(HoldRule{.path = name.first, .op = name.second});
      rule.how = bits == exact_bits ? HoldRule::How::exact : HoldRule::How::code;
      if (bits != exact_bits) rule.bits = bits;
      if (group_size != memory.options.end())
        rule.group_size = static_cast<std::int64_t>(std::get<double>(group_size->second));
    }
    for (const SlotName& name : plan.kept)
      memory.rules.push_back({.path = name.first, .op = name.second, .how = HoldRule::How::keep});
  }
  Configuration with(const Plan& plan) const {
    Configuration candidate = configuration_;
    write(plan, candidate);
    return candidate;
  }

  /// Of what no plan changes.
  std::string what_takes_less() const {
    std::string text;
    if (configuration_.train.batch_size > configuration_.train.accumulate)
      text += " A larger train.accumulate or a smaller train.batch_size takes less.";
    if (of_saved_) return text;
    const Bytes memory = measure(with({.bits = fewest_bits}), Device::meta).memory;
    const std::int64_t training =
        at(memory, Purpose::parameters) + at(memory, Purpose::gradients) + at(memory, Purpose::optimizer);
    return text + fmt::format(
                      " Parameters, gradients and the optimizer's state are {} of it: optimizer.in_backward, "
                      "optimizer.state or a frozen part of the model takes less.",
                      format_bytes(training));
  }
  std::int64_t used(const Configuration& configuration) const {
    const Measurement measured = measure(configuration, Device::meta);
    return of_saved_ ? at(measured.memory, Purpose::saved) : highest_need(measured);
  }
  std::int64_t bytes_of(const Plan& plan) const { return used(with(plan)); }
  std::string budget_text() const {
    return fmt::format("budget of {} {}", format_bytes(budget_), of_saved_ ? "saved" : "in all");
  }
  std::string used_text(std::int64_t bytes) const {
    return fmt::format("{} used ({:.0f} %)", format_bytes(bytes),
                       100.0 * static_cast<double>(bytes) / static_cast<double>(budget_));
  }
  bool fits(const Plan& plan) const { return bytes_of(plan) <= budget_; }

  /// Every sequence in pieces of at most `length` blocks, as equal as can be.
  std::vector<Segment> segments(std::int64_t length) const {
    std::vector<Segment> all;
    for (const Segment& sequence : survey_.sequences) {
      const std::int64_t pieces = (sequence.count + length - 1) / length;
      for (std::int64_t i = 0; i < pieces; ++i) {
        const std::int64_t begin = sequence.count * i / pieces;
        all.push_back(sequence.part(begin, sequence.count * (i + 1) / pieces - begin));
      }
    }
    return all;
  }

  struct Regions {
    std::vector<std::string> paths;
    std::vector<Segment> segments{};  // that they are, if they are
  };
  /// What can be recomputed, the least work first: all blocks, or all parts of blocks; several blocks as one; blocks
  /// with their parts within them, which run again once more; and several blocks, the blocks and their parts. Last,
  /// where what a block holds while it runs again is the peak: the parts of one name alone.
  std::vector<Regions> all_regions() const {
    std::vector<Regions> all;
    const auto with_all = [](std::vector<std::string> paths, const std::vector<std::string>& more) {
      for (const std::string& path : more)  // a piece may be one block
        if (std::ranges::find(paths, path) == paths.end()) paths.push_back(path);
      return paths;
    };
    for (std::int64_t length = 1; length <= longest_; ++length) {
      all.push_back({paths_of(segments(length)), segments(length)});
      if (length == 1 && !parts_.empty()) all.push_back({parts_});
    }
    for (std::int64_t length = 1; length <= longest_; ++length)
      all.push_back({with_all(paths_of(segments(length)), length == 1 ? parts_ : with_all(blocks_, parts_))});
    std::map<std::string, std::vector<std::string>> by_name;
    for (const std::string& part : parts_) by_name[part.substr(part.rfind('.') + 1)].push_back(part);
    for (auto& [name, paths] : by_name) all.push_back({std::move(paths)});
    return all;
  }

  /// What an error as large as the tensor would do to the gradient. Of a region's input it is that of the tensor which
  /// the region before gives when it saves all it needs; what was not measured counts by its size, at a usual rate.
  double sensitivity_of(const Codable& tensor) const {
    const auto measured = [&](const SlotName& name) -> std::optional<double> {
      const auto found = sensitivities_.find(name);
      return found == sensitivities_.end() ? std::nullopt : std::optional(found->second);
    };
    // Of all tensors together, as measured for a ViT: an error of 0.11 with 4 bits (docs/compression.md).
    const double usual = 0.0125 / code_variance(4);
    double elements = 0;
    for (const Codable& other : survey_.tensors) elements += static_cast<double>(other.elements);
    const double by_size = usual * static_cast<double>(tensor.elements) / elements;
    if (const auto own = measured(tensor.name)) return std::max(*own, least_share_of_usual * by_size);
    std::optional<double> last;
    for (const Codable& other : survey_.tensors)
      if (lies_in(other.name.first, tensor.name.first))
        if (const auto value = measured(other.name)) last = value;
    return last ? std::max(*last, least_share_of_usual * by_size) : by_size;
  }

  /// The least variance that fits while the regions run again; nothing where not even the fewest bits do.
  std::optional<Prediction> divided(const std::vector<std::string>& recompute) const {
    const StepSurvey found = survey(configuration_, recompute);
    std::vector<BitChoice> choices;
    std::int64_t fewest = 0, most = 0;
    for (const Codable& tensor : found.tensors) {
      choices.push_back({.elements = tensor.elements,
                         .range_bytes = tensor.range_bytes,
                         .rotated_bytes = tensor.rotated_bytes,
                         .sensitivity = sensitivity_of(tensor),
                         .exact_bytes = tensor.bytes});
      fewest += tensor.rotated_bytes + (tensor.elements * fewest_bits + 7) / 8;
      most += tensor.bytes;
    }
    const auto plan_within = [&](std::int64_t bytes) {
      const BitPlan bits = allocate_bits(choices, bytes);
      std::map<int, std::int64_t> tensors;  // by their bits
      for (const int each : bits.bits) ++tensors[each];
      Plan plan{.recompute = recompute};
      if (!tensors.empty())
        plan.bits = std::ranges::max_element(tensors, {}, [](const auto& of) { return of.second; })->first;
      for (std::size_t i = 0; i < choices.size(); ++i)
        if (bits.bits[i] != plan.bits) plan.others[found.tensors[i].name] = bits.bits[i];
      return std::pair(plan, bits.variance);
    };
    const std::int64_t at_fewest = bytes_of({.bits = fewest_bits, .recompute = recompute});
    if (at_fewest > budget_) return {};
    // Saved bytes add up; a peak need not lie where all of them are held.
    std::int64_t low = fewest, high = of_saved_ ? std::min(most, fewest + budget_ - at_fewest) : most;
    if (fits(plan_within(high).first)) low = high;
    for (int i = 0; i < 14 && low < high; ++i) {
      const std::int64_t middle = (low + high + 1) / 2;
      (fits(plan_within(middle).first) ? low : high) = middle;
    }
    auto [plan, variance] = plan_within(low);
    if (!fits(plan)) {  // what none of the tensors stands for counts
      plan = {.bits = fewest_bits, .recompute = recompute};
      variance = 0;
      for (const BitChoice& choice : choices) variance += choice.sensitivity * code_variance(fewest_bits);
    }
    Prediction prediction{.plan = std::move(plan), .variance = variance};
    Configuration exact = configuration_;
    exact.memory = {};
    exact.memory.recompute = recompute;
    prediction.seconds = predicted_seconds(exact);
    for (const Codable& tensor : found.tensors) {
      const auto own = prediction.plan.others.find(tensor.name);
      const int bits = own == prediction.plan.others.end() ? prediction.plan.bits : own->second;
      if (bits != exact_bits) prediction.seconds += code_seconds(tensor.bytes);
    }
    return prediction;
  }

  bool with_codes() {
    const std::int64_t machine = allocator(device_of(configuration_)).capacity();
    sensitivities_ = measure_sensitivities(configuration_, of_saved_ ? machine : std::min(budget_, machine));
    // The blocks that hold most first: they take about the same time.
    std::map<std::string, std::int64_t> held;
    for (const Codable& tensor : survey_.tensors)
      for (const std::string& block : blocks_)
        if (lies_in(tensor.name.first, block)) held[block] += tensor.bytes;
    std::vector<std::string> order = blocks_;
    std::ranges::stable_sort(order, std::greater(), [&](const std::string& block) { return held[block]; });
    std::optional<Prediction> best;
    const auto consider = [&](const std::vector<std::string>& recompute) {
      std::optional<Prediction> found = divided(recompute);
      if (found && (!best || found->cost() < best->cost())) best = std::move(found);
    };
    constexpr std::int64_t steps = 4;
    for (std::int64_t i = 0; i <= steps; ++i) {
      const std::int64_t count = std::ssize(blocks_) * i / steps;
      if (i == 0 || count > std::ssize(blocks_) * (i - 1) / steps) consider({order.begin(), order.begin() + count});
    }
    for (const Regions& regions : all_regions())
      if (!best) consider(regions.paths);
    if (best) choose(*best);
    return best.has_value();
  }

  /// What may be recomputed in place of a whole segment, the least work first.
  std::vector<std::vector<std::string>> less_than(const Segment& segment) const {
    std::vector<std::vector<std::string>> choices{{}};
    for (std::int64_t count = 1; count < segment.count; ++count) choices.push_back({segment.part(0, count).path()});
    if (const std::int64_t half = segment.count / 2; half > 0) {  // no less work, but less at once
      choices.push_back({segment.part(0, half).path(), segment.part(half, segment.count - half).path()});
      return choices;
    }
    std::vector<std::string> parts;
    for (const std::string& part : parts_)
      if (lies_in(part, segment.path())) parts.push_back(part);
    for (const std::string& part : parts) choices.push_back({part});
    if (parts.size() > 1) choices.push_back(parts);
    return choices;
  }

  bool without_codes() {
    for (const Regions& regions : all_regions()) {
      Plan plan{.recompute = regions.paths};
      if (!fits(plan)) continue;
      for (auto segment = regions.segments.rbegin(); segment != regions.segments.rend(); ++segment) {
        for (const std::vector<std::string>& choice : less_than(*segment)) {  // give back what fits
          Plan less = plan;
          std::erase(less.recompute, segment->path());
          less.recompute.insert(less.recompute.end(), choice.begin(), choice.end());
          if (!fits(less)) continue;
          plan = std::move(less);
          break;
        }
      }
      keep_what_fits(plan);
      choose({.plan = plan, .seconds = predicted_seconds(with(plan))});
      return true;
    }
    return false;
  }

  /// What is left of the budget goes to tensors that need not be derived then, the largest first: deriving one takes a
  /// pass over as many bytes.
  void keep_what_fits(Plan& plan) const {
    std::vector<Derivable> derived = derived_tensors(configuration_, plan.recompute);
    std::ranges::stable_sort(derived, std::greater(), &Derivable::bytes);
    std::int64_t left = budget_ - bytes_of(plan);
    for (const Derivable& tensor : derived) {
      if (of_saved_ && tensor.bytes > left) continue;
      plan.kept.push_back(tensor.name);
      if (const std::int64_t bytes = bytes_of(plan); bytes <= budget_)
        left = budget_ - bytes;
      else
        plan.kept.pop_back();
    }
  }

  void choose(const Prediction& prediction) {
    const Plan& plan = prediction.plan;
    const std::int64_t bytes = bytes_of(plan);
    write(plan, configuration_);
    std::vector<std::string> how;
    std::map<int, std::int64_t, std::greater<>> tensors;  // by their bits
    for (const Codable& tensor : survey(configuration_, plan.recompute).tensors) {
      const auto own = plan.others.find(tensor.name);
      ++tensors[own == plan.others.end() ? plan.bits : own->second];
    }
    for (const auto& [bits, count] : tensors)
      how.push_back(
          fmt::format("{} {}", counted(count, "tensor"), bits == exact_bits ? "exact" : "in " + counted(bits, "bit")));
    if (!plan.kept.empty()) how.push_back(fmt::format("{} kept that could be derived", plan.kept.size()));
    if (!plan.recompute.empty()) {
      const auto whole = std::ranges::count_if(blocks_, [&](const std::string& block) {
        return std::ranges::any_of(plan.recompute, [&](const std::string& region) { return lies_in(block, region); });
      });
      const auto parts = std::ranges::count_if(
          plan.recompute, [&](const std::string& region) { return std::ranges::find(parts_, region) != parts_.end(); });
      std::string again = fmt::format("recomputed {} of {} blocks", whole, blocks_.size());
      if (parts > 0)
        again += fmt::format(" and {} of blocks by {}", counted(parts, "part"), parts == 1 ? "itself" : "themselves");
      if (whole > std::ssize(plan.recompute) - parts)
        again += ", in " + counted(std::ssize(plan.recompute) - parts, "region");
      how.push_back(std::move(again));
    }
    if (prediction.seconds > 0) {
      std::string expected = fmt::format("expected: a step of {:.2f} x the time of an exact one",
                                         prediction.seconds / predicted_seconds(with({})));
      if (prediction.variance > 0)
        expected += fmt::format(", {} more variance of the gradient{}", percent(prediction.variance),
                                sensitivities_.empty() ? " (by size, not measured)" : "");
      how.push_back(std::move(expected));
    }
    if (how.empty()) how.emplace_back("nothing to choose");
    configuration_.memory.why = fmt::format(
        "{}: {}; {}{}", budget_text(), fmt::join(how, "; "), used_text(bytes),
        plan.bits == exact_bits && plan.others.empty() && plan.recompute.empty() ? ": everything fits as it is" : "");
  }

  Configuration& configuration_;
  std::int64_t budget_;
  bool of_saved_;
  StepSurvey survey_;  // with nothing recomputed
  Sensitivities sensitivities_;
  std::vector<std::string> blocks_, parts_;  // regions, and regions within them
  std::int64_t longest_ = 1;                 // sequence, in blocks
};

}  // namespace

std::int64_t parse_bytes(const std::string& text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  constexpr Unit units[] = {{"", 1},         {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                            {"TiB", 0x1p40}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9}};
  std::size_t end = 0;
  double number = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
  }
  const std::size_t unit_begin = std::min(text.find_first_not_of(' ', end), text.size());
  for (const Unit& unit : units)
    if (end > 0 && text.substr(unit_begin) == unit.name && number > 0 && number * unit.bytes < 0x1p62)
      return static_cast<std::int64_t>(number * unit.bytes);
  reject("memory.budget: expected bytes as 6GiB, 1.5GB or 800MiB, got {}", text);
}

std::vector<std::string> recomputable_blocks(const Configuration& configuration) {
  std::vector<std::string> patterns;
  for (const Segment& sequence : survey(configuration, {}).sequences) patterns.push_back(sequence.sequence + ".*");
  return patterns;
}

void fit_budget(Configuration& configuration) {
  Configuration::Memory& memory = configuration.memory;
  if (memory.policy != "auto") return;
  if (memory.budget.empty()) reject("memory.policy: auto needs memory.budget: how much memory there is, as 6GiB");
  if (memory.options.contains("bits")) {  // a run that goes on
    if (Fitting(configuration, parse_bytes(memory.budget)).holds()) return;
    memory.options.erase("bits");
    memory.rules.clear();
    memory.recompute.clear();
  }
  if (!memory.rules.empty() || !memory.recompute.empty())
    reject("memory.policy: auto chooses `rules` and `recompute` itself: expected none");
  const auto codes = memory.options.find("codes");
  Fitting(configuration, parse_bytes(memory.budget))
      .run(codes == memory.options.end() || std::get<bool>(codes->second));
}

}  // namespace lacuna::apps
