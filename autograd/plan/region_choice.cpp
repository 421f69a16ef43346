#include "autograd/plan/region_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

namespace lacuna {

RegionChoice::Part RegionChoice::measured(const GraphRegion& region) const {
  const auto is_inside = [&](const std::string& path) { return lies_in(path, region.path); };
  std::size_t last_read = 0;
  for (const GraphTensor& tensor : graph_.tensors)
    if (is_inside(tensor.path) && std::ranges::any_of(tensor.readers, is_inside))
      last_read = std::max(last_read, tensor.made);
  Part part{.region = &region};
  for (std::size_t i = 0; i < graph_.events.size(); ++i) {
    const StepGraph::Event& event = graph_.events[i];
    if (!is_inside(event.path)) continue;
    if (!event.backward && i <= last_read) {
      part.seconds += event.seconds;
      if (part.to == 0) part.from = i;
      part.to = i + 1;
    }
    if (event.backward && part.begin == 0) part.begin = i;
  }
  return part;
}

RegionChoice::RegionChoice(const StepGraph& graph, const Ways& ways) : graph_(graph) {
  for (const GraphRegion& region : graph.regions) {
    const Part part = measured(region);
    if (!blocks_.empty() && lies_in(region.path, blocks_.back().region->path)) {
      // Parts within parts are no choice.
      if (blocks_.back().parts.empty() || !lies_in(region.path, blocks_.back().parts.back().region->path))
        blocks_.back().parts.push_back(part);
      continue;
    }
    Block& block = blocks_.emplace_back(Block{part});
    for (const StepGraph::Event& event : graph.events)
      if (!event.backward && lies_in(event.path, region.path)) block.all_seconds += event.seconds;
  }
  local_.resize(graph.events.size() + 1);
  for (const GraphTensor& tensor : graph.tensors) {
    if (tensor.is_input) continue;
    // Whole until backward is known to read nothing else of it.
    local_[tensor.made] -= tensor.whole_bytes();
    local_[std::min(tensor.birth, graph.events.size())] += tensor.whole_bytes() - tensor.held_bytes;
  }
  std::partial_sum(local_.begin(), local_.end(), local_.begin());
  for (std::size_t i = 0; i < graph.events.size(); ++i) local_[i] += graph.events[i].peak - graph.events.front().peak;
  // The block and part of a path.
  const auto place = [&](const std::string& path) -> Place {
    for (std::ptrdiff_t b = 0; b < count(); ++b) {
      const Block& block = blocks_[static_cast<std::size_t>(b)];
      if (!lies_in(path, block.region->path)) continue;
      const auto part =
          std::ranges::find_if(block.parts, [&](const Part& one) { return lies_in(path, one.region->path); });
      return {b, part == block.parts.end() ? -1 : part - block.parts.begin()};
    }
    return {-1, -1};
  };
  moments_.assign(graph.events.size(), moments() - 1);
  for (std::size_t i = graph.backward_begin; i < graph.events.size(); ++i) {
    const std::ptrdiff_t block = place(graph.events[i].path).block;
    moments_[i] = block >= 0 ? static_cast<std::size_t>(block + 1) : i > 0 ? moments_[i - 1] : moments() - 1;
  }
  for (const GraphTensor& tensor : graph.tensors) {
    Tensor& added = tensors_.emplace_back(Tensor{.ways = ways(tensor, false), .leaving = ways(tensor, true)});
    added.is_there = tensor.can_rematerialize || tensor.can_quantize || tensor.held_bytes >= tensor.size.exact_bytes;
    if (!tensor.is_input) added.made = place(tensor.path);
    for (const std::string& user : tensor.users)
      if (const Place at = place(user); at.block >= 0 && !(at == added.made)) added.users.push_back(at);
    const std::size_t index = tensors_.size() - 1;
    for (const Place& user : added.users)
      if (Block& block = blocks_[static_cast<std::size_t>(user.block)];
          !added.is_there && (block.inputs.empty() || block.inputs.back() != index))
        block.inputs.push_back(index);
    if (added.made.block < 0) continue;
    blocks_[static_cast<std::size_t>(added.made.block)].tensors.push_back(index);
    added.first = tensor.readers.empty() ? added.made.block : count();
    added.last = tensor.readers.empty() ? added.made.block : -1;
    added.read_in_part = added.made.part >= 0;
    for (const std::string& reader : tensor.readers) {
      const Place at = place(reader);
      added.first = std::min(added.first, at.block);
      added.last = std::max(added.last, at.block < 0 ? count() : at.block);
      added.read_in_part = added.read_in_part && at == added.made;
    }
  }
}

bool RegionChoice::lies_within(const Place& place, const Region& region) {
  return place.block >= region.first && place.block <= region.last && (region.part < 0 || place.part == region.part);
}

bool RegionChoice::is_held_for(const Tensor& tensor, const Region& region) {
  return !lies_within(tensor.made, region) &&
         std::ranges::any_of(tensor.users, [&](const Place& user) { return lies_within(user, region); });
}

/// Whether the tensor lives in the recomputed region alone.
bool RegionChoice::is_inner(const Tensor& tensor, const Region& region) {
  if (region.part >= 0) return tensor.made.part == region.part && tensor.read_in_part;
  return tensor.first >= region.first && tensor.last <= region.last;
}

const TensorWay& RegionChoice::cheapest(std::size_t tensor, bool leaves, const Prices& prices, bool inside) const {
  const std::vector<TensorWay>& ways = leaves ? tensors_[tensor].leaving : tensors_[tensor].ways;
  // Later tensors have slightly lower prices, so that equal blocks change one by one.
  constexpr double spread = 1e-3;
  const double price = prices[inside ? 0 : static_cast<std::size_t>(tensors_[tensor].first + 1)] *
                       (1 - spread * static_cast<double>(tensor) / static_cast<double>(tensors_.size()));
  return *std::ranges::min_element(
      ways, {}, [&](const TensorWay& way) { return way.cost + price * static_cast<double>(way.bytes); });
}

double RegionChoice::value(std::size_t tensor, bool leaves, const Prices& prices, const Region* inside) const {
  const TensorWay& way = cheapest(tensor, leaves, prices, inside != nullptr);
  const double price = prices[static_cast<std::size_t>(tensors_[tensor].first + 1)];
  if (inside == nullptr) return way.cost + price * static_cast<double>(way.bytes);
  return (price - prices[static_cast<std::size_t>(inside->last + 2)]) * static_cast<double>(way.bytes);
}

bool RegionChoice::is_sequence(std::ptrdiff_t first, std::ptrdiff_t last) const {
  const std::string& sequence = blocks_[static_cast<std::size_t>(first)].region->sequence;
  return !sequence.empty() && sequence == blocks_[static_cast<std::size_t>(last)].region->sequence;
}

RegionChoice::Region RegionChoice::run(std::ptrdiff_t first, std::ptrdiff_t last) const {
  Region region{first,
                last,
                -1,
                0,
                blocks_[static_cast<std::size_t>(first)].from,
                blocks_[static_cast<std::size_t>(last)].to,
                std::numeric_limits<std::size_t>::max()};
  for (std::ptrdiff_t b = first; b <= last; ++b) {
    const Block& block = blocks_[static_cast<std::size_t>(b)];
    region.seconds += b < last ? block.all_seconds : block.seconds;
    region.begin = std::min(region.begin, block.begin);
  }
  return region;
}

RegionChoice::Region RegionChoice::part(std::ptrdiff_t block, std::ptrdiff_t index) const {
  const Part& part = blocks_[static_cast<std::size_t>(block)].parts[static_cast<std::size_t>(index)];
  return {block, block, index, part.seconds, part.from, part.to, part.begin};
}

/// The cost of the tensors that its blocks make, or its part, and of the recompute.
double RegionChoice::cost_of(const Region& region, const Prices& prices) const {
  double cost = region.seconds;
  for (std::ptrdiff_t b = region.first; b <= region.last; ++b) {
    const Block& block = blocks_[static_cast<std::size_t>(b)];
    for (const std::size_t i : block.tensors)
      if (lies_within(tensors_[i].made, region))
        cost += is_inner(tensors_[i], region) ? value(i, false, prices, &region) : value(i, true, prices);
    for (const std::size_t i : block.inputs)
      if (is_held_for(tensors_[i], region)) cost += value(i, true, prices);
  }
  return cost;
}

std::vector<RegionChoice::Region> RegionChoice::cheapest_regions(const Prices& prices, std::ptrdiff_t longest) const {
  struct State {
    double cost = 0;
    std::vector<Region> regions{};
    std::ptrdiff_t from = 0;
  };
  if (longest == 0) return {};
  std::vector<State> best(blocks_.size() + 1);  // of the blocks before
  for (std::ptrdiff_t b = 0; b < count(); ++b) {
    const auto at = static_cast<std::size_t>(b);
    const Block& block = blocks_[at];
    // Not recomputed, or some of its parts are.
    State& state = best[at + 1];
    state = {.cost = best[at].cost, .regions = {}, .from = b};
    for (const std::size_t i : block.tensors)
      if (tensors_[i].made.part < 0) state.cost += value(i, false, prices);
    for (std::size_t p = 0; p < block.parts.size(); ++p) {
      const Region alone = part(b, static_cast<std::ptrdiff_t>(p));
      double kept = 0;
      for (const std::size_t i : block.tensors)
        if (tensors_[i].made.part == alone.part) kept += value(i, false, prices);
      const double cost = cost_of(alone, prices);
      if (cost < kept) state.regions.push_back(alone);
      state.cost += std::min(cost, kept);
    }
    for (std::ptrdiff_t first = b; first >= 0 && b - first < longest; --first) {
      if (first < b && !is_sequence(first, b)) break;
      const Region together = run(first, b);
      if (const double cost = best[static_cast<std::size_t>(first)].cost + cost_of(together, prices); cost < state.cost)
        state = {.cost = cost, .regions = {together}, .from = first};
    }
  }
  std::vector<Region> regions;
  for (std::ptrdiff_t b = count(); b > 0; b = best[static_cast<std::size_t>(b)].from)
    regions.insert(regions.begin(), best[static_cast<std::size_t>(b)].regions.begin(),
                   best[static_cast<std::size_t>(b)].regions.end());
  return regions;
}

/// The bytes of a step in which these regions are recomputed, and its cost beyond that of its ops. Parts may lie in
/// recomputed blocks.
RegionChoice::Weighed RegionChoice::weigh(const std::vector<Region>& regions, const Prices& prices) const {
  struct Recompute {
    std::vector<std::int64_t> saved{};  // changes of what it has saved, by op
    std::int64_t all = 0;
  };
  std::vector<Recompute> recomputes;
  Weighed result;
  for (const Region& region : regions) {
    result.cost += region.seconds;
    recomputes.push_back({std::vector<std::int64_t>(region.to + 1 - region.from, 0), 0});
  }
  std::vector<HeldBytes> held;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    const GraphTensor& recorded = graph_.tensors[i];
    const Region* inside = nullptr;  // the innermost region that has the tensor alone
    bool leaves = false;
    for (const Region& region : regions) {
      if (!lies_within(tensor.made, region)) continue;
      if (!is_inner(tensor, region))
        leaves = true;
      else if (inside == nullptr || region.part >= 0)
        inside = &region;
    }
    for (const Region& region : regions) {
      if (!is_held_for(tensor, region)) continue;
      leaves = leaves || !tensor.is_there;
      if (inside != nullptr && (inside->part >= 0 || region.first < inside->first || region.last > inside->last))
        inside = nullptr;
    }
    const TensorWay& way = cheapest(i, leaves, prices, inside != nullptr);
    if (inside == nullptr) {
      held.push_back({.bytes = way.bytes, .later = way.loaded, .from = recorded.first_use});
      result.cost += way.cost;
      continue;
    }
    held.push_back({.later = way.bytes + std::max<std::int64_t>(way.loaded, 0), .from = inside->begin});
    Recompute& again = recomputes[static_cast<std::size_t>(inside - regions.data())];
    again.all += held.back().later;
    again.saved[std::clamp(recorded.made, inside->from, inside->to) - inside->from] += recorded.whole_bytes();
    again.saved[std::clamp(recorded.birth, inside->from, inside->to) - inside->from] +=
        held.back().later - recorded.whole_bytes();
  }
  result.bytes = graph_.bytes(held);
  const std::vector<std::int64_t> totals = graph_.totals(held);
  result.moment = moments_[static_cast<std::size_t>(std::ranges::max_element(totals) - totals.begin())];
  for (std::size_t r = 0; r < regions.size(); ++r) {
    // Before the region's backward pass begins, its forward pass runs.
    const Region& region = regions[r];
    const StepGraph::Event& begin = graph_.events[region.begin];
    std::int64_t saved = 0, highest = 0;
    for (std::size_t i = region.from; i < region.to; ++i)
      highest = std::max(highest, local_[i] + (saved += recomputes[r].saved[i - region.from]));
    highest += totals[region.begin] - begin.peak + begin.live - recomputes[r].all;
    if (highest <= result.bytes.peak) continue;
    result.bytes.peak = highest;
    result.moment = static_cast<std::size_t>(region.last + 1);
  }
  return result;
}

std::string RegionChoice::path(const Region& region) const {
  const Block& block = blocks_[static_cast<std::size_t>(region.first)];
  if (region.part >= 0) return block.parts[static_cast<std::size_t>(region.part)].region->path;
  if (region.first == region.last) return block.region->path;
  return BlockRange{block.region->sequence, block.region->index,
                    blocks_[static_cast<std::size_t>(region.last)].region->index}
      .path();
}

std::vector<RegionChoice::Result> RegionChoice::choose(std::int64_t budget,
                                                       const std::function<std::int64_t(const StepBytes&)>& counted,
                                                       bool of_saved) const {
  struct Candidate {
    std::vector<Region> regions{};
    Prices prices{};
    Weighed weighed{};
    std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
  };
  const auto candidate = [&](std::vector<Region> regions, const Prices& prices) {
    Candidate one{std::move(regions), prices};
    one.weighed = weigh(one.regions, prices);
    one.bytes = counted(one.weighed.bytes);
    return one;
  };
  const auto is_better = [&](const Candidate& a, const Candidate& b) {
    const auto key = [&](const Candidate& one) { return std::pair(std::max(one.bytes, budget), one.weighed.cost); };
    return key(a) < key(b);
  };
  // Drops what fits without: whole regions, and blocks at the ends of runs.
  const auto drop = [&](Candidate& from) {
    std::ranges::sort(from.regions, std::greater(), &Region::seconds);
    for (std::size_t i = 0; i < from.regions.size();) {
      const Region now = from.regions[i];
      std::vector<std::vector<Region>> changes(now.first < now.last ? 3 : 1, from.regions);
      changes[0].erase(changes[0].begin() + static_cast<std::ptrdiff_t>(i));
      if (now.first < now.last) {
        changes[1][i] = run(now.first, now.last - 1);
        changes[2][i] = run(now.first + 1, now.last);
      }
      if (std::ranges::none_of(changes, [&](std::vector<Region>& change) {
            Candidate fewer = candidate(std::move(change), from.prices);
            if (from.bytes > budget ? fewer.bytes >= from.bytes : !is_better(fewer, from)) return false;
            from = std::move(fewer);
            return true;
          }))
        ++i;
    }
  };

  std::set<std::ptrdiff_t> lengths{0, count()};  // of runs: each takes the sequences in so many pieces
  for (std::ptrdiff_t pieces = 1; !of_saved && pieces <= count(); ++pieces)
    lengths.insert((count() + pieces - 1) / pieces);
  std::vector<Candidate> candidates;
  for (const std::ptrdiff_t longest : lengths) {
    Candidate& best = candidates.emplace_back();
    std::vector<double> peaks(moments(), 0);  // how often a moment had the peak
    peaks.back() = 1;
    const auto at = [&](double price) {
      Prices prices(moments());
      const double all = std::accumulate(peaks.begin(), peaks.end(), 0.0);
      std::inclusive_scan(peaks.rbegin(), peaks.rend(), prices.rbegin());
      for (double& one : prices) one *= price / all;
      return candidate(cheapest_regions(prices, longest), prices);
    };
    const int rounds = of_saved || longest == 0 ? 1 : 4;
    for (int round = 0; round < rounds; ++round) {
      constexpr double least = 1e-14, most = 1e-5, step = 3;  // seconds a byte
      constexpr int halvings = 12;
      double low = least;
      Candidate found = at(low);
      for (double high = step * low; found.bytes > budget && high < most; high *= step) {
        Candidate next = at(high);
        if (next.bytes <= budget || is_better(next, found)) {
          low = high / step;
          found = std::move(next);
        }
      }
      double high = found.bytes <= budget ? low * step : low;
      for (int i = 0; i < halvings && high > low; ++i) {
        const double middle = std::sqrt(low * high);
        if (Candidate next = at(middle); next.bytes <= budget) {
          high = middle;
          found = std::move(next);
        } else {
          low = middle;
        }
      }
      const std::size_t moment = found.weighed.moment;
      if (found.bytes > budget && !of_saved) {  // parts may be recomputed within blocks
        std::vector<Region> nested = found.regions;
        for (const Region& region : found.regions)
          for (std::ptrdiff_t b = region.first; b <= region.last && region.part < 0; ++b)
            for (std::ptrdiff_t p = 0; p < std::ssize(blocks_[static_cast<std::size_t>(b)].parts); ++p)
              nested.push_back(part(b, p));
        if (Candidate deeper = candidate(std::move(nested), found.prices); is_better(deeper, found))
          found = std::move(deeper);
      }
      drop(found);
      if (is_better(found, best)) best = std::move(found);
      peaks[moment] += 1;
    }
  }
  // Adds a region, or a block to a run, so that others may be dropped.
  candidates.insert(candidates.begin(), *std::ranges::min_element(candidates, is_better));
  Candidate& best = candidates.front();
  const auto with = [&](const Region& added) {
    std::vector<Region> more = best.regions;
    std::erase_if(more, [&](const Region& one) {
      return added.part < 0 ? one.part < 0 && one.first >= added.first && one.last <= added.last
                            : one.first == added.first && one.part == added.part;
    });
    more.push_back(added);
    Candidate exchanged = candidate(std::move(more), best.prices);
    drop(exchanged);
    if (!is_better(exchanged, best)) return false;
    best = std::move(exchanged);
    return true;
  };
  constexpr int passes = 3;
  for (int pass = 0, changed = 1; pass < passes && changed > 0; ++pass) {
    changed = 0;
    for (std::ptrdiff_t b = 0; b < count(); ++b) {
      const auto covers = [&](const Region& one) { return one.part < 0 && one.first <= b && one.last >= b; };
      const auto covered = std::ranges::find_if(best.regions, covers);
      if (covered == best.regions.end()) {
        changed += with(run(b, b)) ? 1 : 0;
      } else if (const Region now = *covered; now.last == b && b + 1 < count() && is_sequence(b, b + 1)) {
        changed += with(run(now.first, b + 1)) ? 1 : 0;
      }
      for (std::ptrdiff_t p = 0; p < std::ssize(blocks_[static_cast<std::size_t>(b)].parts); ++p)
        if (std::ranges::none_of(best.regions, [&](const Region& one) { return one.first == b && one.part == p; }))
          changed += with(part(b, p)) ? 1 : 0;
    }
  }
  std::ranges::stable_sort(candidates, is_better);
  std::vector<Result> results;
  for (Candidate& one : candidates) {
    std::ranges::sort(one.regions, {}, [](const Region& region) { return std::pair(region.first, region.part); });
    Result result{.regions = {}, .bytes = one.bytes, .seconds = one.weighed.cost + graph_.seconds()};
    for (const Region& region : one.regions) result.regions.push_back(path(region));
    if (std::ranges::find(results, result.regions, &Result::regions) == results.end())
      results.push_back(std::move(result));
  }
  return results;
}

std::string RegionChoice::describe(const std::vector<std::string>& regions) const {
  std::ptrdiff_t whole = 0, parts = 0, runs = 0;
  for (const Block& block : blocks_) {
    whole += std::ranges::any_of(regions, [&](const std::string& one) { return lies_in(block.region->path, one); });
    for (const Part& part : block.parts) parts += std::ranges::count(regions, part.region->path);
  }
  for (const std::string& region : regions) runs += parse_block_range(region) ? 1 : 0;
  std::string text = fmt::format("recomputed: {} of {} blocks", whole, blocks_.size());
  if (runs > 0) text += fmt::format(", in {} {} of several", runs, runs == 1 ? "run" : "runs");
  if (parts > 0) text += fmt::format(" and {} {} of blocks", parts, parts == 1 ? "part" : "parts");
  return text;
}

}  // namespace lacuna
