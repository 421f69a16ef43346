#include "autograd/plan/planner.h"

#include "autograd/plan/region_choice.h"
#include "core/ledger.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace lacuna {
namespace {

/// Sums the predicted time of ops.
class TimeObserver final : public Observer {
 public:
  explicit TimeObserver(const CostTable& costs) : costs_(costs) {}
  void before(Phase, const Operation&, Label) override {}
  void after(Phase, const Operation&, Label, const Work& work, std::span<const Tensor>) override {
    seconds += costs_.op_seconds(work.macs, work.bytes);
  }
  double seconds = 0;

 private:
  const CostTable& costs_;
};

/// A count with its noun: `1 region`, `2 regions`.
std::string counted(std::ptrdiff_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

class Planner {
 public:
  explicit Planner(const PlannerOptions& options) : o_(options), exact_(record({}, exact_bits)) {
    for (const GraphTensor& tensor : exact_.tensors) exact_seconds_ += seconds_of(tensor, {});
    exact_seconds_ += exact_.seconds();
    waited_ = waited_share();
  }

  PlannerResult plan() {
    if (counted_bytes(exact_.recorded_bytes) <= o_.budget) {
      MemoryPlan exact{.group_size = o_.group_size, .bytes = counted_bytes(exact_.recorded_bytes)};
      if (!o_.fill) return result(std::move(exact), true);
      StepGraph graph = exact_;
      for (GraphTensor& tensor : graph.tensors) tensor.can_offload = false;
      MemoryPlan filled = fitted(graph, {});
      return result(filled.bytes <= o_.budget ? std::move(filled) : std::move(exact), true);
    }
    if (o_.quantize) sensitivities_ = o_.sensitivities();
    const StepGraph graph = recorded({});
    const auto ways = [this](const GraphTensor& tensor, bool leaves) {
      return leaves && !tensor.can_quantize ? ways_of(as_output(tensor)) : ways_of(tensor);
    };
    const auto counted = [this](const StepBytes& bytes) { return counted_bytes(bytes); };
    const auto cost = [&](const MemoryPlan& plan) { return plan.seconds + o_.noise_price * plan.variance; };
    std::optional<MemoryPlan> best;
    const auto fits_best = [&] { return best && best->bytes <= o_.budget; };
    // Predictions for other regions are rough. If the best ones take more than the budget, or more time than promised,
    // the target is lowered. Others are tried as long as they promise less than the best so far. The last round tries
    // the smallest.
    std::set<std::vector<std::string>> tried;
    constexpr int rounds = 4;
    constexpr std::size_t most = 16;
    constexpr double near = 1.02, step = 0.01;
    std::int64_t target = o_.budget;
    for (int round = 1; round <= rounds; ++round) {
      std::int64_t over = 0;
      const std::vector<RegionChoice> choices = choose_regions(graph, ways, counted, round < rounds ? target : 0);
      for (const RegionChoice& chosen : choices) {
        const bool is_worse = choices.front().bytes <= target && chosen.bytes > target;
        if (fits_best() && (is_worse || chosen.seconds / exact_seconds_ >= cost(*best))) continue;
        if ((tried.size() >= most && round < rounds) || !tried.insert(chosen.regions).second) continue;
        MemoryPlan plan = fitted(recorded(chosen.regions), chosen.regions);
        if (over == 0) over = plan.bytes - std::min(o_.budget, plan.bytes);
        if (!best || (plan.bytes <= o_.budget ? !fits_best() || cost(plan) < cost(*best) : plan.bytes < best->bytes))
          best = std::move(plan);
      }
      if (fits_best() && cost(*best) <= near * choices.front().seconds / exact_seconds_) break;
      target -= std::max(over, static_cast<std::int64_t>(step * static_cast<double>(o_.budget))) * round;
    }
    const bool fits = best->bytes <= o_.budget;
    return result(std::move(*best), fits);
  }

 private:
  StepGraph record(const std::vector<std::string>& regions, int bits) const {
    return StepGraph::record(o_.step, regions, bits, o_.group_size, o_.costs);
  }
  std::int64_t counted_bytes(const StepBytes& bytes) const {
    return o_.of_saved ? bytes.saved : std::max(bytes.peak + o_.beside_step, o_.floor);
  }

  /// A step with these regions recomputed, with the sensitivities of its tensors.
  StepGraph recorded(const std::vector<std::string>& regions) const {
    StepGraph graph = record(regions, o_.quantize ? 8 : exact_bits);
    double elements = 0;
    for (const GraphTensor& tensor : exact_.tensors)
      if (tensor.held_bytes > 0 && !tensor.is_input) elements += static_cast<double>(tensor.size.elements);
    std::int64_t left = o_.store_budget > 0 ? o_.store_budget : std::numeric_limits<std::int64_t>::max();
    for (GraphTensor& tensor : graph.tensors) {
      tensor.can_offload = tensor.can_offload && o_.store != nullptr && tensor.size.exact_bytes <= left;
      if (tensor.can_offload) left -= tensor.size.exact_bytes;
      if (!tensor.worth_quantizing || tensor.is_input) continue;
      auto known = sensitivities_.values.find(tensor.key);
      // The output of a recomputed region gets the sensitivity of the last tensor in it.
      if (known == sensitivities_.values.end())
        for (const GraphTensor& other : exact_.tensors)
          if (lies_in(other.path, tensor.path) && sensitivities_.values.contains(other.key))
            known = sensitivities_.values.find(other.key);
      const double by_size = o_.usual_sensitivity * static_cast<double>(tensor.size.elements) / elements;
      tensor.size.sensitivity =
          known == sensitivities_.values.end() ? by_size : std::max(known->second, least_share_of_usual * by_size);
    }
    return graph;
  }

  /// A tensor that is rematerialized or not held, as the input or output of a recomputed region.
  GraphTensor as_output(GraphTensor tensor) const {
    if (tensor.is_input || tensor.is_statistic) return tensor;
    tensor.can_rematerialize = false;
    tensor.can_quantize = o_.quantize && tensor.worth_quantizing;
    tensor.held_bytes = tensor.size.exact_bytes;
    return tensor;
  }

  /// The ways to hold a tensor, in the order of bytes.
  std::vector<TensorWay> ways_of(const GraphTensor& tensor) const {
    std::vector<MemoryPlan::Choice> choices{{}};
    if (o_.of_saved && tensor.in_region) return {{.cost = seconds_of(tensor, {})}};  // is in no budget
    if (tensor.can_rematerialize) choices.push_back({.kept = true});
    if (tensor.can_quantize) {
      choices.clear();
      for (const int bits : bit_widths)
        if (!tensor.is_input || bits >= 8) choices.push_back({.bits = bits});
    }
    if (tensor.can_offload) choices.insert(choices.begin(), {.offloaded = true});
    std::vector<TensorWay> ways;
    for (const MemoryPlan::Choice& choice : choices)
      ways.push_back({.choice = choice,
                      .bytes = tensor.bytes(choice),
                      .later = choice.offloaded                           ? tensor.size.exact_bytes
                               : choice.kept || !tensor.can_rematerialize ? -tensor.again_bytes
                                                                          : 0,
                      .cost = seconds_of(tensor, choice) +
                              exact_seconds_ * o_.noise_price * tensor.size.sensitivity * code_variance(choice.bits)});
    return ways;
  }

  /// A plan for one set of regions, and how its tensors are held.
  struct Division {
    const StepGraph& graph;
    std::vector<std::vector<TensorWay>> ways{};  // [tensors]
    std::vector<std::vector<HoldCost>> costs{};  // [tensors]: their bytes and costs
    std::vector<std::size_t> chosen{};           // [tensors]

    const TensorWay& way(std::size_t tensor) const { return ways[tensor][chosen[tensor]]; }
    std::vector<HeldBytes> held() const {
      std::vector<HeldBytes> held;
      for (std::size_t i = 0; i < ways.size(); ++i)
        held.push_back({way(i).bytes, way(i).later, graph.tensors[i].first_use});
      return held;
    }
  };

  /// Divides `budget` among the tensors, as far as the graph predicts it; at least each takes its fewest bytes.
  void divide(Division& division, std::int64_t budget) const {
    const auto predict = [&](std::int64_t bytes) {
      division.chosen = choose_ways(division.costs, bytes).ways;
      return counted_bytes(division.graph.bytes(division.held()));
    };
    std::int64_t fewest = 0, most = 1, fixed = division.graph.recorded_bytes.saved;
    for (std::size_t i = 0; i < division.costs.size(); ++i) {
      fewest += division.costs[i].front().bytes;
      most += division.costs[i].back().bytes;
      if (!division.graph.tensors[i].in_region) fixed -= division.graph.tensors[i].held_bytes;
    }
    if (o_.of_saved) {
      predict(budget - fixed);
      return;
    }
    if (predict(most) > budget) {
      while (most - fewest > budget / 1000 + 1) {
        const std::int64_t middle = fewest + (most - fewest) / 2;
        (predict(middle) <= budget ? fewest : most) = middle;
      }
      if (predict(fewest) > budget) return;
    }
    relax_regions(division, budget);
  }

  /// Gives tensors of recomputed regions their cheapest way if the peak is elsewhere.
  void relax_regions(Division& division, std::int64_t budget) const {
    std::vector<std::int64_t> totals = division.graph.totals(division.held());
    for (std::size_t i = 0; i < division.ways.size(); ++i) {
      const GraphTensor& tensor = division.graph.tensors[i];
      if (!tensor.in_region) continue;
      const auto at = [&](std::size_t event) {
        return totals.begin() + static_cast<std::ptrdiff_t>(std::min(event, totals.size()));
      };
      const auto begin = at(tensor.birth), end = std::max(begin, at(tensor.last_use + 1));
      const std::int64_t others = begin < end ? *std::max_element(begin, end) - division.way(i).bytes : 0,
                         before = division.way(i).bytes;
      for (std::size_t way = 0; way < division.ways[i].size(); ++way)
        if (division.ways[i][way].cost < division.way(i).cost &&
            others + division.ways[i][way].bytes + o_.beside_step <= budget)
          division.chosen[i] = way;
      std::for_each(begin, end, [&](std::int64_t& total) { total += division.way(i).bytes - before; });
    }
  }

  /// The plan of a division, with the bytes and the time of a step on `meta`.
  MemoryPlan confirmed(const Division& division, const std::vector<std::string>& regions) const {
    MemoryPlan plan{.regions = regions, .group_size = o_.group_size};
    double seconds = 0;
    for (std::size_t i = 0; i < division.ways.size(); ++i) {
      const GraphTensor& tensor = division.graph.tensors[i];
      const MemoryPlan::Choice& choice = division.way(i).choice;
      if (tensor.can_quantize || choice.kept || choice.offloaded) plan.tensors[tensor.key] = choice;
      plan.variance += tensor.size.sensitivity * code_variance(choice.bits);
      seconds += seconds_of(tensor, choice);
    }
    if (!plan.quantizes())
      std::erase_if(plan.tensors, [](const auto& entry) { return !entry.second.kept && !entry.second.offloaded; });
    PlannedPolicy policy(plan, "planned", o_.store);
    TimeObserver time(o_.costs);
    plan.bytes = counted_bytes(o_.step(policy, &time));
    plan.seconds = (seconds + time.seconds / static_cast<double>(o_.micro_batches)) / exact_seconds_;
    return plan;
  }

  /// The plan for these regions with the most bytes that a step on `meta` confirms to fit; if none fits, the one with
  /// the fewest. The target of the predicted bytes is bisected; what that leaves goes to single tensors.
  MemoryPlan fitted(const StepGraph& graph, const std::vector<std::string>& regions) const {
    Division division{.graph = graph};
    for (const GraphTensor& tensor : graph.tensors) {
      std::vector<HoldCost>& costs = division.costs.emplace_back();
      for (const TensorWay& way : division.ways.emplace_back(ways_of(tensor))) costs.push_back({way.bytes, way.cost});
    }
    std::optional<MemoryPlan> best;
    MemoryPlan plan;  // of `before`
    std::vector<std::size_t> before, of_best;
    std::int64_t target = o_.budget, low = 0, high = std::numeric_limits<std::int64_t>::max();  // fits, does not
    std::int64_t step = 1;
    constexpr int rounds = 12;
    constexpr double enough = 0.98;
    const auto is_enough = [&](std::int64_t bytes) {
      return bytes <= o_.budget &&
             (o_.of_saved || static_cast<double>(bytes) >= enough * static_cast<double>(o_.budget));
    };
    for (int round = 0; round < rounds && target > low && target < high; ++round) {
      divide(division, target);
      if (round == 0 || division.chosen != before) plan = confirmed(division, regions);
      before = division.chosen;
      const std::int64_t left = o_.budget - plan.bytes;
      if (!best || (left >= 0 ? best->bytes > o_.budget || plan.bytes > best->bytes : plan.bytes < best->bytes)) {
        best = plan;
        of_best = division.chosen;
      }
      if (is_enough(plan.bytes)) break;
      (left >= 0 ? low : high) = target;
      target += left * step;
      step = left >= 0 ? 1 : 2 * step;  // the peak may be at a place that the plan does not affect
      if (target >= high || (target <= low && low > 0)) target = low + (high - low) / 2;
    }
    if (best->bytes > o_.budget || is_enough(best->bytes)) return *best;
    division.chosen = of_best;
    for (const std::size_t tensor : by_gain(division, o_.budget - best->bytes)) {
      std::size_t& way = division.chosen[tensor];
      const std::size_t lower = std::exchange(way, division.costs[tensor].size() - 1);
      if (plan = confirmed(division, regions); plan.bytes > o_.budget) {
        way = lower;
        continue;
      }
      best = plan;
      if (is_enough(best->bytes)) break;
    }
    return *best;
  }

  /// Tensors that cost less in their largest way, which adds `left` bytes at most: the most cost saved per byte first,
  /// a few of them.
  static std::vector<std::size_t> by_gain(const Division& division, std::int64_t left) {
    std::vector<std::pair<double, std::size_t>> gains;
    for (std::size_t i = 0; i < division.costs.size(); ++i) {
      const HoldCost &now = division.costs[i][division.chosen[i]], &most = division.costs[i].back();
      if (most.cost < now.cost && most.bytes > now.bytes && most.bytes - now.bytes <= left)
        gains.emplace_back((most.cost - now.cost) / static_cast<double>(most.bytes - now.bytes), i);
    }
    std::ranges::sort(gains);
    constexpr std::size_t few = 8;
    gains.resize(std::min(few, gains.size()));
    std::vector<std::size_t> tensors;
    for (const auto& [gain, tensor] : gains) tensors.push_back(tensor);
    return tensors;
  }

  /// The fraction of the disk's time for which a step waits if all eligible tensors are offloaded. The disk works
  /// concurrently with the computation; at least a tenth of its time is exposed.
  double waited_share() const {
    constexpr double least = 0.1;
    double disk = 0;
    for (const GraphTensor& tensor : exact_.tensors)
      if (tensor.can_offload) disk += 2 * static_cast<double>(tensor.size.exact_bytes) / o_.costs.disk;
    return std::clamp(disk > 0 ? 1 - exact_.seconds() / disk : 0, least, 1.0);
  }
  double seconds_of(const GraphTensor& tensor, const MemoryPlan::Choice& choice) const {
    if (choice.offloaded) return o_.costs.offload_seconds(tensor.size.exact_bytes, waited_);
    if (tensor.can_rematerialize) return choice.kept ? 0 : o_.costs.rematerialize_seconds(tensor.size.exact_bytes);
    return tensor.can_quantize ? o_.costs.quantize_seconds(tensor.size.exact_bytes, choice.bits) : 0;
  }

  PlannerResult result(MemoryPlan plan, bool fits) const {
    std::map<int, std::int64_t, std::greater<>> counts;  // number of tensors by bits
    std::int64_t kept = 0, offloaded = 0;
    for (const auto& [key, choice] : plan.tensors)
      ++(choice.kept ? kept : choice.offloaded ? offloaded : counts[choice.bits]);
    std::vector<std::string> how;
    for (const auto& [bits, count] : counts)
      how.push_back(counted(count, "tensor") + (bits == exact_bits ? " exact" : " in " + counted(bits, "bit")));
    if (offloaded > 0) how.push_back(fmt::format("{} offloaded", counted(offloaded, "tensor")));
    if (kept > 0) how.push_back(fmt::format("{} kept instead of rematerialized", counted(kept, "tensor")));
    if (!plan.regions.empty()) how.push_back(counted(std::ssize(plan.regions), "region") + " recomputed");
    if (how.empty()) how.emplace_back("everything fits as it is");
    if (plan.quantizes() || plan.offloads() || !plan.regions.empty())
      how.push_back(fmt::format("predicted: {:.2f} x the time of an exact step", plan.seconds));
    if (plan.variance > 0)
      how.push_back(
          fmt::format("{:.2g} % more variance of the gradient ({})", 100 * plan.variance, sensitivities_.source));
    plan.text = fmt::format("budget of {} {}: {}; {} used ({:.0f} %)", format_bytes(o_.budget),
                            o_.of_saved ? "saved" : "in all", fmt::join(how, "; "), format_bytes(plan.bytes),
                            100 * static_cast<double>(plan.bytes) / static_cast<double>(o_.budget));
    return {std::move(plan), fits};
  }

  const PlannerOptions& o_;
  StepGraph exact_;           // nothing recomputed, nothing quantized
  double exact_seconds_ = 0;  // of a micro-batch
  double waited_ = 0;
  MeasuredSensitivities sensitivities_{};
};

}  // namespace

PlannerResult plan_memory(const PlannerOptions& options) { return Planner(options).plan(); }

}  // namespace lacuna
