#include "autograd/plan/planner.h"

#include "autograd/plan/region_chains.h"
#include "core/ledger.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <optional>
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
    exact_seconds_ = seconds_of(exact_, Choices(exact_.tensors.size()));
    waited_ = waited_share();
  }

  PlannerResult plan() {
    if (counted_bytes(exact_.recorded_bytes) <= o_.budget)
      return result({.group_size = o_.group_size, .bytes = counted_bytes(exact_.recorded_bytes)}, true);
    if (o_.quantize) sensitivities_ = o_.sensitivities();
    search();
    // Predictions of peaks are rough, so the best few candidates are tried.
    std::ranges::stable_sort(candidates_, {}, &Candidate::score);
    std::optional<MemoryPlan> best, least;
    const std::size_t most = o_.of_saved ? 2 : 6;
    for (std::size_t i = 0; i < candidates_.size() && (i < most || !best); ++i) {
      if (i > 0 && candidates_[i].score > static_cast<double>(o_.budget)) break;  // no later one fits
      MemoryPlan plan = confirmed(candidates_[i]);
      if (!best && plan.bytes <= o_.budget) widen(candidates_[i].graph, plan);
      if (!least || plan.bytes < least->bytes) least = plan;
      if (plan.bytes <= o_.budget && (!best || plan.cost() < best->cost())) best = std::move(plan);
    }
    return result(best ? *best : *least, best.has_value());
  }

 private:
  using Choices = std::vector<MemoryPlan::Choice>;  // [tensors]
  /// A step with these regions recomputed.
  struct Candidate {
    Regions regions;
    StepGraph graph;
    double score;  // predicted cost; if it does not fit, its bytes, which exceed any cost
  };

  StepGraph record(const Regions& regions, int bits) const {
    return StepGraph::record(o_.step, regions, bits, o_.group_size, o_.costs);
  }
  /// Replaces the predicted bytes and time of ops by those of a step on `meta`. `op_seconds`: the predicted time.
  void run(MemoryPlan& plan, double op_seconds) const {
    PlannedPolicy policy(plan, "planned", o_.store);
    TimeObserver time(o_.costs);
    plan.bytes = counted_bytes(o_.step(policy, &time));
    plan.seconds += (time.seconds - static_cast<double>(o_.micro_batches) * op_seconds) / exact_seconds_;
  }
  std::int64_t counted_bytes(const StepBytes& bytes) const {
    return o_.of_saved ? bytes.saved : std::max(bytes.peak + o_.beside_step, o_.floor);
  }

  /// Searches each chain for the set of regions with the least cost. Chains that start from all blocks are tried only
  /// if recomputing all blocks is better than recomputing some.
  void search() {
    double best = std::numeric_limits<double>::infinity();
    Regions regions;
    const auto try_chain = [&](const RegionChain& chain) {
      const auto [score, at] = least_along(chain);
      if (score < best) {
        best = score;
        regions = chain[at];
      }
    };
    const std::vector<RegionChain> chains = block_chains(exact_);
    for (const RegionChain& chain : chains) try_chain(chain);
    const bool all_alone = regions == chains.front().back();
    for (const RegionChain& chain : run_chains(exact_, false, !o_.of_saved)) try_chain(chain);
    if (!all_alone) return;
    for (const RegionChain& chain : run_chains(exact_, true, !o_.of_saved)) try_chain(chain);
  }

  /// The least score along a chain and its index, if scores are unimodal: they fall to one minimum and then rise.
  std::pair<double, std::size_t> least_along(const RegionChain& chain) {
    std::map<std::size_t, double> scores;
    const auto score = [&](std::size_t at) {
      const auto [place, is_new] = scores.emplace(at, 0);
      if (is_new) place->second = score_of(chain[at]);
      return place->second;
    };
    std::size_t best = 0;
    for (std::size_t stride = std::bit_ceil(chain.size()); stride > 0; stride /= 2) {
      const std::size_t from = best > stride ? best - stride : 0, to = std::min(best + stride, chain.size() - 1);
      for (const std::size_t at : {from, to})
        if (score(at) < score(best)) best = at;
    }
    return {score(best), best};
  }

  double score_of(const Regions& regions) {
    const auto known = std::ranges::find(candidates_, regions, &Candidate::regions);
    if (known != candidates_.end()) return known->score;
    candidates_.push_back({.regions = regions, .graph = record(regions, o_.quantize ? 8 : exact_bits), .score = 0});
    Candidate& added = candidates_.back();
    weigh(added.graph);
    MemoryPlan plan = divided(added, o_.budget);
    // If the prediction does not fit, a step shows whether it is wrong or by how much it does not fit.
    if (plan.bytes > o_.budget) run(plan, added.graph.seconds());
    added.score = plan.bytes <= o_.budget ? plan.cost() : static_cast<double>(plan.bytes);
    return added.score;
  }

  /// Fills in the sensitivities of a graph's tensors.
  void weigh(StepGraph& graph) const {
    double elements = 0;
    for (const GraphTensor& tensor : exact_.tensors)
      if (tensor.held_bytes > 0 && !tensor.is_input) elements += static_cast<double>(tensor.size.elements);
    for (GraphTensor& tensor : graph.tensors) {
      if (!tensor.can_quantize || tensor.is_input) continue;
      auto known = sensitivities_.find(tensor.key);
      // The output of a recomputed region gets the sensitivity of the last tensor in it.
      if (known == sensitivities_.end())
        for (const GraphTensor& other : exact_.tensors)
          if (lies_in(other.path, tensor.path) && sensitivities_.contains(other.key))
            known = sensitivities_.find(other.key);
      const double by_size = o_.usual_sensitivity * static_cast<double>(tensor.size.elements) / elements;
      tensor.size.sensitivity =
          known == sensitivities_.end() ? by_size : std::max(known->second, least_share_of_usual * by_size);
    }
  }

  /// A plan that the graph predicts to fit `budget`; if none does, the one with the fewest bytes.
  MemoryPlan divided(const Candidate& candidate, std::int64_t budget) const {
    const StepGraph& graph = candidate.graph;
    std::vector<std::size_t> tensors;                      // indices of the tensors with a choice
    std::vector<Choices> choices_of;                       // the choices of each of `tensors`
    std::vector<std::vector<HoldCost>> ways;               // the costs of these choices
    std::vector<std::int64_t> held;                        // bytes held, for each tensor of the graph
    std::vector<std::int64_t> back(graph.tensors.size());  // bytes loaded from the store, likewise
    std::int64_t fixed = graph.recorded_bytes.saved, fewest = 0, most = 1;
    std::int64_t left_on_file = o_.store_budget > 0 ? o_.store_budget : std::numeric_limits<std::int64_t>::max();
    for (const GraphTensor& tensor : graph.tensors) {
      held.push_back(tensor.held_bytes);
      Choices choices;
      if (tensor.can_quantize)
        for (const int bits : bit_widths)
          if (!tensor.is_input || bits >= 8) choices.push_back({.bits = bits});
      if (tensor.can_rematerialize) choices = {{}, {.kept = true}};
      if (o_.store != nullptr && tensor.can_offload && tensor.size.exact_bytes <= left_on_file) {
        if (choices.empty()) choices.emplace_back();
        choices.insert(choices.begin(), {.offloaded = true});
        left_on_file -= tensor.size.exact_bytes;
      }
      if (choices.empty()) continue;
      if (o_.of_saved && tensor.in_region) choices = {{}};  // does not count in the budget
      tensors.push_back(held.size() - 1);
      std::vector<HoldCost>& costs = ways.emplace_back();
      for (const MemoryPlan::Choice& choice : choices)
        costs.push_back({tensor.bytes(choice), step_seconds() * tensor.size.sensitivity * code_variance(choice.bits) +
                                                   seconds_of(tensor, choice)});
      choices_of.push_back(std::move(choices));
      fixed -= o_.of_saved && tensor.in_region ? costs.front().bytes : tensor.held_bytes;
      fewest += costs.front().bytes;
      most += costs.back().bytes;
    }
    std::vector<std::size_t> chosen;
    const auto predict = [&](std::int64_t bytes) {
      chosen = choose_ways(ways, bytes).ways;
      for (std::size_t k = 0; k < tensors.size(); ++k) {
        held[tensors[k]] = ways[k][chosen[k]].bytes;
        back[tensors[k]] = choices_of[k][chosen[k]].offloaded ? graph.tensors[tensors[k]].size.exact_bytes : 0;
      }
      return counted_bytes(graph.bytes(held, back));
    };
    std::int64_t predicted = predict(o_.of_saved ? budget - fixed : most);
    if (predicted > budget && !o_.of_saved) {
      std::int64_t low = fewest, high = most;
      while (high - low > budget / 1000 + 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (predict(middle) <= budget ? low : high) = middle;
      }
      predicted = predict(low);
    }
    if (!o_.of_saved && predicted <= budget) {
      relax_regions(graph, tensors, ways, budget, held, back, chosen);
      predicted = counted_bytes(graph.bytes(held, back));
    }
    MemoryPlan plan{.regions = candidate.regions, .group_size = o_.group_size, .bytes = predicted};
    Choices choices(graph.tensors.size());
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      const GraphTensor& tensor = graph.tensors[tensors[k]];
      const MemoryPlan::Choice choice = choices[tensors[k]] = choices_of[k][chosen[k]];
      if (tensor.can_quantize || choice.kept || choice.offloaded) plan.tensors[tensor.key] = choice;
      plan.variance += tensor.size.sensitivity * code_variance(choice.bits);
    }
    if (!plan.quantizes())
      std::erase_if(plan.tensors, [](const auto& entry) { return !entry.second.kept && !entry.second.offloaded; });
    plan.seconds = seconds_of(graph, choices) / exact_seconds_;
    return plan;
  }

  /// Gives tensors of recomputed regions their cheapest way if the peak is elsewhere. `tensors`: indices of the tensors
  /// that have `ways`.
  void relax_regions(const StepGraph& graph, const std::vector<std::size_t>& tensors,
                     const std::vector<std::vector<HoldCost>>& ways, std::int64_t budget,
                     std::vector<std::int64_t>& held, const std::vector<std::int64_t>& back,
                     std::vector<std::size_t>& chosen) const {
    std::vector<std::int64_t> totals = graph.totals(held, back);
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      const GraphTensor& tensor = graph.tensors[tensors[k]];
      if (!tensor.in_region) continue;
      const auto begin = totals.begin() + static_cast<std::ptrdiff_t>(std::min(tensor.birth, totals.size())),
                 end = totals.begin() + static_cast<std::ptrdiff_t>(std::min(tensor.last_use + 1, totals.size()));
      const std::int64_t highest = begin < end ? *std::max_element(begin, end) : 0;
      std::size_t best = chosen[k];
      for (std::size_t way = 0; way < ways[k].size(); ++way) {
        const std::int64_t more = ways[k][way].bytes - held[tensors[k]];
        if (ways[k][way].cost < ways[k][best].cost && highest + more + o_.beside_step <= budget) best = way;
      }
      const std::int64_t more = ways[k][best].bytes - held[tensors[k]];
      std::for_each(begin, std::max(begin, end), [&](std::int64_t& total) { total += more; });
      held[tensors[k]] += more;
      chosen[k] = best;
    }
  }

  /// The plan with the most bytes that a step on `meta` confirms to fit; if none fits, the one with the fewest.
  MemoryPlan confirmed(const Candidate& candidate) const {
    std::optional<MemoryPlan> best;
    std::int64_t target = o_.budget;                                        // target of predicted bytes
    std::int64_t low = 0, high = std::numeric_limits<std::int64_t>::max();  // targets that fit, and that do not
    std::int64_t step = 1, before = -1;
    constexpr int rounds = 10;
    constexpr double enough = 0.98;
    for (int round = 0; round < rounds && target > low && target < high; ++round) {
      MemoryPlan plan = divided(candidate, target);
      const bool is_same = std::exchange(before, plan.bytes) == plan.bytes;
      run(plan, candidate.graph.seconds());
      const std::int64_t left = o_.budget - plan.bytes;
      const bool is_first = !best, was_over = best && best->bytes > o_.budget;
      if (is_first || (left >= 0 ? was_over || plan.bytes > best->bytes : was_over && plan.bytes < best->bytes))
        best = std::move(plan);
      const bool is_enough = (is_same && high == std::numeric_limits<std::int64_t>::max()) ||
                             static_cast<double>(left) <= (1 - enough) * static_cast<double>(o_.budget);
      if (left >= 0 && (o_.of_saved || is_enough)) break;
      (left >= 0 ? low : high) = target;
      if (left >= 0) step = 1;
      target += left * step;
      if (left < 0) step *= 2;  // the peak may be at a place that the plan does not affect
      if (target >= high || (target <= low && low > 0)) target = low + (high - low) / 2;
    }
    return *best;
  }

  /// Gives single tensors more bits as long as the plan fits, since a jump of the peak may leave part of the budget
  /// unused.
  void widen(const StepGraph& graph, MemoryPlan& plan) const {
    constexpr double enough = 0.95;
    int tries = 48;
    for (const GraphTensor& tensor : graph.tensors) {
      const auto found = plan.tensors.find(tensor.key);
      if (found == plan.tensors.end() || found->second.bits == exact_bits || tensor.is_input) continue;
      if (static_cast<double>(plan.bytes) >= enough * static_cast<double>(o_.budget) || tries-- == 0) return;
      MemoryPlan wider = plan;
      const int now = found->second.bits, next = *std::ranges::upper_bound(bit_widths, now);
      wider.tensors[tensor.key].bits = next;
      wider.variance -= tensor.size.sensitivity * (code_variance(now) - code_variance(next));
      PlannedPolicy policy(wider, "planned", o_.store);
      wider.bytes = counted_bytes(o_.step(policy, nullptr));
      if (wider.bytes <= o_.budget) plan = std::move(wider);
    }
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
  /// Time of a micro-batch.
  double step_seconds() const { return exact_seconds_ / static_cast<double>(o_.micro_batches); }
  double seconds_of(const GraphTensor& tensor, const MemoryPlan::Choice& choice) const {
    if (choice.offloaded) return o_.costs.offload_seconds(tensor.size.exact_bytes, waited_);
    if (tensor.can_rematerialize) return choice.kept ? 0 : o_.costs.rematerialize_seconds(tensor.size.exact_bytes);
    return tensor.can_quantize ? o_.costs.quantize_seconds(tensor.size.exact_bytes, choice.bits) : 0;
  }
  double seconds_of(const StepGraph& graph, const Choices& choices) const {
    double seconds = graph.seconds();
    for (std::size_t i = 0; i < choices.size(); ++i) seconds += seconds_of(graph.tensors[i], choices[i]);
    return static_cast<double>(o_.micro_batches) * seconds;
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
    if (!plan.regions.empty()) how.push_back(describe(exact_, plan.regions));
    if (how.empty()) how.emplace_back("everything fits as it is");
    if (plan.quantizes() || plan.offloads() || !plan.regions.empty())
      how.push_back(fmt::format("predicted: {:.2f} x the time of an exact step", plan.seconds));
    if (plan.variance > 0)
      how.push_back(fmt::format("{:.2g} % more variance of the gradient{}", 100 * plan.variance,
                                sensitivities_.empty() ? " (by size, not measured)" : ""));
    plan.text = fmt::format("budget of {} {}: {}; {} used ({:.0f} %)", format_bytes(o_.budget),
                            o_.of_saved ? "saved" : "in all", fmt::join(how, "; "), format_bytes(plan.bytes),
                            100 * static_cast<double>(plan.bytes) / static_cast<double>(o_.budget));
    return {std::move(plan), fits};
  }

  const PlannerOptions& o_;
  StepGraph exact_;  // nothing recomputed, nothing quantized
  double exact_seconds_ = 0, waited_ = 0;
  std::map<std::string, double> sensitivities_{};
  std::vector<Candidate> candidates_{};
};

}  // namespace

PlannerResult plan_memory(const PlannerOptions& options) { return Planner(options).plan(); }

}  // namespace lacuna
