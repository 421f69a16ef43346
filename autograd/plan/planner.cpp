#include "autograd/plan/planner.h"

#include "autograd/plan/checkpoint_search.h"
#include "core/ledger.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace lacuna {
namespace {

using Regions = std::vector<std::string>;

/// Adds up what ops would take.
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

/// `1 region`, `2 regions`.
std::string counted(std::ptrdiff_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

class Planner {
 public:
  explicit Planner(const PlannerOptions& options)
      : o_(options), exact_(StepGraph::record(o_.step, {}, exact_bits, o_.group_size, o_.costs)) {
    exact_seconds_ = seconds_of(exact_, Choices(exact_.tensors.size()), run({}).seconds);
  }

  PlannerResult plan() {
    if (counted_bytes(exact_.recorded_bytes) <= o_.budget) {
      const Candidate whole{{.group_size = o_.group_size, .bytes = counted_bytes(exact_.recorded_bytes)}, exact_};
      return result(whole, ": everything fits as it is");
    }
    if (o_.of_saved || o_.floor <= o_.budget) {
      search(false);
      if (o_.quantize) {
        quantized_ = StepGraph::record(o_.step, {}, 8, o_.group_size, o_.costs);
        sensitivities_ = o_.sensitivities();
        search(true);
      }
    }
    if (!best_) {
      MemoryPlan plan = least();
      if (plan.bytes > o_.budget) return {std::move(plan), false};
      const Regions regions = plan.regions;
      best_ = Candidate{std::move(plan),
                        StepGraph::record(o_.step, regions, o_.quantize ? 8 : exact_bits, o_.group_size, o_.costs)};
      drop_regions(o_.quantize);
    }
    fill(best_->graph, best_->plan);
    const std::int64_t more = is_used(best_->plan.bytes) ? 0 : least_more(*best_);
    return result(*best_, more > 0
                              ? fmt::format(": the least that could be held besides takes {} more", format_bytes(more))
                              : std::string());
  }

 private:
  struct Run {
    StepBytes bytes;
    double seconds;
  };
  struct Candidate {
    MemoryPlan plan;
    StepGraph graph;  // recorded under its regions
  };
  using Choices = std::vector<MemoryPlan::Choice>;  // [tensors]

  std::int64_t counted_bytes(const StepBytes& bytes) const {
    return o_.of_saved ? bytes.saved : std::max(bytes.peak + o_.beside_step, o_.floor);
  }
  bool is_used(std::int64_t bytes) const { return static_cast<double>(bytes) >= 0.95 * static_cast<double>(o_.budget); }

  Run run(const MemoryPlan& plan) const {
    PlannedPolicy policy(plan);
    TimeObserver time(o_.costs);
    const StepBytes bytes = o_.step(policy, &time);
    return {bytes, time.seconds};
  }

  double sensitivity(const GraphTensor& tensor, const StepGraph& graph) const {
    const auto own = sensitivities_.find(tensor.key);
    std::optional<double> known = own == sensitivities_.end() ? std::nullopt : std::optional(own->second);
    if (!known)  // the output of a recomputed region: the last tensor that the region itself gives
      for (const GraphTensor& other : exact_.tensors)
        if (const auto found = sensitivities_.find(other.key);
            found != sensitivities_.end() && !tensor.path.empty() && lies_in(other.path, tensor.path))
          known = found->second;
    double elements = 0;
    for (const StepGraph* const of : {&graph, quantized_ ? &*quantized_ : &graph}) {
      double sum = 0;
      for (const GraphTensor& other : of->tensors)
        if (other.can_quantize && !other.is_input) sum += static_cast<double>(other.size.elements);
      elements = std::max(elements, sum);
    }
    const double by_size = o_.usual_sensitivity * static_cast<double>(tensor.size.elements) / std::max(elements, 1.0);
    return known ? std::max(*known, least_share_of_usual * by_size) : by_size;
  }

  void search(bool quantize) {
    StepGraph& graph = quantize ? *quantized_ : exact_;
    for (GraphTensor& tensor : graph.tensors)
      if (tensor.can_quantize && !tensor.is_input) tensor.size.sensitivity = sensitivity(tensor, graph);
    CheckpointSearch paths(graph, o_, exact_seconds_ / static_cast<double>(o_.micro_batches));
    if (quantize) consider({}, true);
    std::set<Regions> tried{{}};
    // The cheapest paths that fit, `most` of them, of those whose predicted bytes are within a part of the budget.
    const auto try_paths = [&](double part, int most) {
      std::vector<CheckpointSearch::Path> found;
      for (const double price : paths.prices())
        for (CheckpointSearch::Path& path :
             paths.best(price, static_cast<std::int64_t>(part * static_cast<double>(o_.budget))))
          if (tried.insert(path.regions).second) found.push_back(std::move(path));
      std::ranges::stable_sort(found, {}, &CheckpointSearch::Path::cost);
      int fitting = 0;
      for (const CheckpointSearch::Path& path : found)
        if (fitting < most && consider(path.regions, quantize)) ++fitting;
      return fitting > 0;
    };
    bool fits = try_paths(1, 4);
    // Predictions of peaks are rough: what seems to take a little more may fit.
    if (!o_.of_saved)
      for (const double part : {1.04, 1.08}) fits = try_paths(part, 2) || fits;
    for (double part = 0.98; !fits && part > 0.5; part -= 0.02) fits = try_paths(part, 4);
    if (!o_.of_saved && best_ && best_->plan.quantizes() == quantize) drop_regions(quantize);
  }

  /// Leaves out one region after the other as long as that fits and is better.
  void drop_regions(bool quantize) {
    for (bool improved = best_.has_value(); improved;) {
      const Regions regions = best_->plan.regions;
      const double before = best_->plan.cost();
      for (std::size_t i = 0; i < regions.size(); ++i) {
        Regions fewer = regions;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
        consider(fewer, quantize);
      }
      improved = best_->plan.cost() < before;
    }
  }

  /// Divides what is left under these regions; whether that fits.
  bool consider(const Regions& regions, bool quantize) {
    const StepGraph& whole = quantize ? *quantized_ : exact_;
    Candidate candidate{{},
                        regions.empty()
                            ? whole
                            : StepGraph::record(o_.step, regions, quantize ? 8 : exact_bits, o_.group_size, o_.costs)};
    StepGraph& graph = candidate.graph;
    for (GraphTensor& tensor : graph.tensors)
      if (tensor.can_quantize && !tensor.is_input) tensor.size.sensitivity = sensitivity(tensor, graph);
    constexpr double rough = 1.05;  // a predicted peak
    if (static_cast<double>(counted_bytes(graph.bytes(fewest(graph, quantize)))) >
        (quantize && !o_.of_saved ? rough : 1) * static_cast<double>(o_.budget))
      return false;
    std::optional<MemoryPlan> fitting;
    std::int64_t target = o_.budget;
    std::int64_t low = 0, high = std::numeric_limits<std::int64_t>::max();  // targets that fit, and do not
    constexpr int rounds = 8;
    for (int round = 0; round < rounds; ++round) {
      const Choices choices = divide(graph, target);
      MemoryPlan plan = plan_of(graph, choices, regions);
      const Run real = run(plan);
      plan.bytes = counted_bytes(real.bytes);
      plan.seconds = seconds_of(graph, choices, real.seconds) / exact_seconds_;
      const bool fits = plan.bytes <= o_.budget;
      const bool is_enough = o_.of_saved || is_used(plan.bytes);  // the graph counts saved bytes exactly
      (fits ? low : high) = target;
      target += o_.budget - plan.bytes;
      if (fits && (!fitting || plan.bytes > fitting->bytes)) fitting = std::move(plan);
      if (fits && is_enough) break;
      if (target >= high) target = low + (high - low) / 2;
      if (target <= low || target == high) break;
    }
    if (!fitting) return false;
    if (!best_ || fitting->cost() < best_->plan.cost() * (1 - 1e-9) ||
        (fitting->cost() <= best_->plan.cost() && fitting->bytes > best_->plan.bytes)) {
      candidate.plan = std::move(*fitting);
      best_ = std::move(candidate);
    }
    return true;
  }

  /// Bytes that each tensor takes at least.
  static std::vector<std::int64_t> fewest(const StepGraph& graph, bool quantize) {
    std::vector<std::int64_t> held;
    for (const GraphTensor& tensor : graph.tensors)
      held.push_back(quantize && tensor.can_quantize ? tensor.bytes({.bits = bit_widths.front()}) : tensor.held_bytes);
    return held;
  }

  /// The best choices for the tensors of a graph within `budget`, by its sweep.
  Choices divide(const StepGraph& graph, std::int64_t budget) const {
    std::vector<std::size_t> tensors;                         // whose bytes are to be chosen
    std::vector<std::vector<HoldCost>> ways;                  // of each
    std::vector<std::vector<MemoryPlan::Choice>> choices_of;  // the same
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      const GraphTensor& tensor = graph.tensors[i];
      if (tensor.can_quantize && !tensor.is_input) {
        choices_of.emplace_back();
        ways.emplace_back();
        for (const int bits : bit_widths) {
          choices_of.back().push_back({.bits = bits});
          ways.back().push_back({tensor.bytes({.bits = bits}), tensor.size.sensitivity * code_variance(bits)});
        }
      } else if (tensor.can_rematerialize) {
        choices_of.push_back({{}, {.kept = true}});
        ways.push_back({{tensor.held_bytes, 0}, {tensor.size.exact_bytes, 0}});  // of what is left over
      } else {
        continue;
      }
      tensors.push_back(i);
    }
    std::vector<std::int64_t> held;
    for (const GraphTensor& tensor : graph.tensors) held.push_back(tensor.held_bytes);
    std::int64_t fixed = graph.recorded_bytes.saved, fewest = 0, most = 0;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      fixed -= held[tensors[k]];
      fewest += ways[k].front().bytes;
      most += ways[k].back().bytes;
    }
    const auto fits = [&](const std::vector<std::size_t>& chosen) {
      for (std::size_t k = 0; k < tensors.size(); ++k) held[tensors[k]] = ways[k][chosen[k]].bytes;
      return counted_bytes(graph.bytes(held)) <= budget;
    };
    std::vector<std::size_t> chosen(tensors.size(), 0);
    if (o_.of_saved) {
      chosen = choose_ways(ways, budget - fixed).ways;
    } else if (std::vector<std::size_t> all = choose_ways(ways, most).ways; fits(all)) {
      chosen = std::move(all);
    } else {
      std::int64_t low = fewest, high = most;
      for (int i = 0; i < 16 && low + 1 < high; ++i) {
        const std::int64_t middle = low + (high - low) / 2;
        (fits(choose_ways(ways, middle).ways) ? low : high) = middle;
      }
      chosen = choose_ways(ways, low).ways;
      // A tensor that is not held when the peak comes may have more without raising it.
      for (const bool first : {true, false})
        for (std::size_t k = 0; k < tensors.size(); ++k)
          for (std::size_t way = first ? ways[k].size() - 1 : chosen[k] + 1; way > chosen[k] && way < ways[k].size();
               first ? --way : ++way) {
            std::vector<std::size_t> more = chosen;
            more[k] = way;
            if (fits(more))
              chosen = std::move(more);
            else if (!first)
              break;
          }
    }
    Choices choices(graph.tensors.size());
    bool quantized = false;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      choices[tensors[k]] = choices_of[k][chosen[k]];
      quantized = quantized || choices[tensors[k]].bits != exact_bits;
    }
    // Images have 8 bits wherever a tensor is quantized, or nothing else is left.
    for (std::size_t i = 0; i < graph.tensors.size(); ++i)
      if (graph.tensors[i].is_input && graph.tensors[i].can_quantize) {
        choices[i].bits = exact_bits;
        held[i] = graph.tensors[i].bytes({});
        if (quantized || !fits(chosen)) choices[i].bits = 8;
        held[i] = graph.tensors[i].bytes(choices[i]);
      }
    return choices;
  }

  MemoryPlan plan_of(const StepGraph& graph, const Choices& choices, const Regions& regions) const {
    MemoryPlan plan{.regions = regions, .group_size = o_.group_size};
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const GraphTensor& tensor = graph.tensors[i];
      if (!tensor.can_quantize && !choices[i].kept) continue;
      plan.tensors[tensor.key] = choices[i];
      if (!tensor.is_input) plan.variance += tensor.size.sensitivity * code_variance(choices[i].bits);
    }
    if (!plan.quantizes()) std::erase_if(plan.tensors, [](const auto& entry) { return !entry.second.kept; });
    return plan;
  }

  double seconds_of(const StepGraph& graph, const Choices& choices, double op_seconds) const {
    double seconds = 0;  // of one micro-batch, beside ops
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const GraphTensor& tensor = graph.tensors[i];
      if (tensor.can_quantize) seconds += o_.costs.quantize_seconds(tensor.size.exact_bytes, choices[i].bits);
      if (tensor.can_rematerialize && !choices[i].kept)
        seconds += o_.costs.rematerialize_seconds(tensor.size.exact_bytes);
    }
    return op_seconds + static_cast<double>(o_.micro_batches) * seconds;
  }

  /// Where bytes are left, gives single tensors more as long as steps on `meta` say that it fits.
  void fill(const StepGraph& graph, MemoryPlan& plan) const {
    struct More {
      std::string key;
      MemoryPlan::Choice choice;
      std::int64_t bytes;
      double gain;  // variance or seconds
    };
    for (int tries = 0; tries < 48;) {
      std::vector<More> all;
      const std::int64_t left = o_.budget - plan.bytes;
      for (const GraphTensor& tensor : graph.tensors) {
        const auto found = plan.tensors.find(tensor.key);
        const MemoryPlan::Choice now = found == plan.tensors.end() ? MemoryPlan::Choice{} : found->second;
        if (now.kept || (tensor.is_input && tensor.can_quantize)) continue;
        if (tensor.can_rematerialize) {
          all.push_back({tensor.key,
                         {.kept = true},
                         tensor.size.exact_bytes - tensor.held_bytes,
                         o_.costs.rematerialize_seconds(tensor.size.exact_bytes) / exact_seconds_});
        } else if (tensor.can_quantize && now.bits != exact_bits && !is_used(plan.bytes)) {
          const MemoryPlan::Choice next{.bits = *std::ranges::upper_bound(bit_widths, now.bits)};
          all.push_back({tensor.key, next, tensor.bytes(next) - tensor.bytes(now),
                         tensor.size.sensitivity * (code_variance(now.bits) - code_variance(next.bits))});
        }
      }
      if (o_.of_saved) std::erase_if(all, [left](const More& more) { return more.bytes > left; });
      std::ranges::stable_sort(all, std::greater(), &More::gain);
      bool changed = false;
      for (const More& more : all) {
        if (++tries > 48) break;
        MemoryPlan wider = plan;
        wider.tensors[more.key] = more.choice;
        const std::int64_t bytes = counted_bytes(run(wider).bytes);
        if (bytes > o_.budget) continue;
        if (more.choice.kept)
          wider.seconds -= more.gain;
        else
          wider.variance -= more.gain;
        wider.bytes = bytes;
        plan = std::move(wider);
        changed = true;
        break;
      }
      if (!changed) return;
    }
  }

  /// The fewest bytes that one tensor more, or one region less, would take; 0 where nothing is left.
  std::int64_t least_more(const Candidate& candidate) const {
    std::int64_t least = 0;
    const auto offer = [&](std::int64_t bytes) {
      if (bytes > 0 && (least == 0 || bytes < least)) least = bytes;
    };
    for (const GraphTensor& tensor : candidate.graph.tensors) {
      const auto found = candidate.plan.tensors.find(tensor.key);
      const MemoryPlan::Choice now = found == candidate.plan.tensors.end() ? MemoryPlan::Choice{} : found->second;
      if (tensor.can_rematerialize && !now.kept) offer(tensor.size.exact_bytes);
      if (tensor.can_quantize && now.bits != exact_bits && !tensor.is_input)
        offer(tensor.bytes({.bits = *std::ranges::upper_bound(bit_widths, now.bits)}) - tensor.bytes(now));
    }
    for (const GraphRegion& region : exact_.regions) {
      if (std::ranges::find(candidate.plan.regions, region.path) == candidate.plan.regions.end()) continue;
      std::int64_t bytes = 0;
      for (const std::size_t i : region.inner) bytes += exact_.tensors[i].held_bytes;
      offer(bytes);
    }
    return least;
  }

  /// The plan that takes least, whatever it costs.
  MemoryPlan least() {
    std::optional<MemoryPlan> least;
    const bool quantize = o_.quantize;
    if (quantize && !quantized_) quantized_ = StepGraph::record(o_.step, {}, 8, o_.group_size, o_.costs);
    const CheckpointSearch paths(quantize ? *quantized_ : exact_, o_, exact_seconds_);
    for (const Regions& regions : paths.uniform()) {
      const StepGraph graph =
          StepGraph::record(o_.step, regions, quantize ? bit_widths.front() : exact_bits, o_.group_size, o_.costs);
      Choices choices(graph.tensors.size());
      for (std::size_t i = 0; i < choices.size(); ++i)
        if (quantize && graph.tensors[i].can_quantize)
          choices[i].bits = graph.tensors[i].is_input ? 8 : bit_widths.front();
      MemoryPlan plan = plan_of(graph, choices, regions);
      const Run real = run(plan);
      plan.bytes = counted_bytes(real.bytes);
      plan.seconds = seconds_of(graph, choices, real.seconds) / exact_seconds_;
      if (!least || plan.bytes < least->bytes) least = std::move(plan);
    }
    return *least;
  }

  PlannerResult result(const Candidate& candidate, const std::string& rest) const {
    PlannerResult result{.plan = candidate.plan};
    MemoryPlan& plan = result.plan;
    const double used = static_cast<double>(plan.bytes) / static_cast<double>(o_.budget);
    std::vector<std::string> how;
    std::map<int, std::int64_t, std::greater<>> counts;  // of tensors, by their bits
    std::int64_t kept = 0;
    for (const auto& [key, choice] : plan.tensors) ++(choice.kept ? kept : counts[choice.bits]);
    for (const auto& [bits, count] : counts)
      how.push_back(counted(count, "tensor") + (bits == exact_bits ? " exact" : " in " + counted(bits, "bit")));
    if (kept > 0) how.push_back(fmt::format("{} kept instead of rematerialized", counted(kept, "tensor")));
    if (!plan.regions.empty()) how.push_back(CheckpointSearch::describe(exact_, plan.regions));
    if (plan.quantizes() || !plan.regions.empty()) {
      std::string predicted = fmt::format("predicted: {:.2f} x the time of an exact step", plan.seconds);
      if (plan.variance > 0)
        predicted += fmt::format(", {:.2g} % more variance of the gradient{}", 100 * plan.variance,
                                 sensitivities_.empty() ? " (by size, not measured)" : "");
      how.push_back(std::move(predicted));
    }
    if (how.empty()) how.emplace_back("nothing to choose");
    plan.text =
        fmt::format("budget of {} {}: {}; {} used ({:.0f} %){}", format_bytes(o_.budget),
                    o_.of_saved ? "saved" : "in all", fmt::join(how, "; "), format_bytes(plan.bytes), 100 * used, rest);
    return result;
  }

  const PlannerOptions& o_;
  StepGraph exact_;                     // nothing recomputed, nothing quantized
  std::optional<StepGraph> quantized_;  // the same in 8 bits
  double exact_seconds_ = 0;
  std::map<std::string, double> sensitivities_;
  std::optional<Candidate> best_;
};

}  // namespace

PlannerResult plan_memory(const PlannerOptions& options) { return Planner(options).plan(); }

}  // namespace lacuna
