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
    added.first = count();
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
bool RegionChoice::is_inner(const Tensor& tensor, const Region& region) const {
  if (region.part >= 0) return tensor.made.part == region.part && tensor.read_in_part;
  return tensor.first >= region.first && tensor.last <= region.last;
}

/// The cheapest way at a price. Later tensors have slightly lower prices, so that equal blocks change one by one.
const TensorWay& RegionChoice::cheapest(std::size_t tensor, bool leaves, double price) const {
  constexpr double spread = 1e-3;
  price *= 1 - spread * static_cast<double>(tensor) / static_cast<double>(tensors_.size());
  const std::vector<TensorWay>& ways = leaves ? tensors_[tensor].leaving : tensors_[tensor].ways;
  return *std::ranges::min_element(
      ways, {}, [&](const TensorWay& way) { return way.cost + price * static_cast<double>(way.bytes); });
}

double RegionChoice::value(std::size_t tensor, bool leaves, double price) const {
  const TensorWay& way = cheapest(tensor, leaves, price);
  return way.cost + price * static_cast<double>(way.bytes);
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

/// The cost of the tensors that its blocks make, or its part, and of the recompute.
double RegionChoice::cost_of(const Region& region, double price) const {
  double cost = region.seconds;
  for (std::ptrdiff_t b = region.first; b <= region.last; ++b) {
    const Block& block = blocks_[static_cast<std::size_t>(b)];
    for (const std::size_t i : block.tensors)
      if (lies_within(tensors_[i].made, region) && !is_inner(tensors_[i], region)) cost += value(i, true, price);
    for (const std::size_t i : block.inputs)
      if (is_held_for(tensors_[i], region)) cost += value(i, true, price);
  }
  return cost;
}

std::vector<RegionChoice::Region> RegionChoice::cheapest_regions(double price, std::ptrdiff_t longest) const {
  struct State {
    double cost = 0;
    std::vector<Region> regions{};
    std::ptrdiff_t from = 0;
  };
  std::vector<State> best(blocks_.size() + 1);  // of the blocks before
  for (std::ptrdiff_t b = 0; b < count(); ++b) {
    const auto at = static_cast<std::size_t>(b);
    const Block& block = blocks_[at];
    // Not recomputed, or some of its parts are.
    State& state = best[at + 1];
    state = {.cost = best[at].cost, .regions = {}, .from = b};
    for (const std::size_t i : block.tensors)
      if (tensors_[i].made.part < 0) state.cost += value(i, false, price);
    for (std::size_t p = 0; p < block.parts.size(); ++p) {
      const Part& one = block.parts[p];
      const Region part{b, b, static_cast<std::ptrdiff_t>(p), one.seconds, one.from, one.to, one.begin};
      double kept = 0;
      for (const std::size_t i : block.tensors)
        if (tensors_[i].made.part == part.part) kept += value(i, false, price);
      const double cost = cost_of(part, price);
      if (cost < kept) state.regions.push_back(part);
      state.cost += std::min(cost, kept);
    }
    for (std::ptrdiff_t first = b; first >= 0 && b - first < longest; --first) {
      const GraphRegion& from = *blocks_[static_cast<std::size_t>(first)].region;
      if (first < b && (from.sequence.empty() || from.sequence != block.region->sequence)) break;
      const Region together = run(first, b);
      if (const double cost = best[static_cast<std::size_t>(first)].cost + cost_of(together, price); cost < state.cost)
        state = {.cost = cost, .regions = {together}, .from = first};
    }
  }
  std::vector<Region> regions;
  for (std::ptrdiff_t b = count(); b > 0; b = best[static_cast<std::size_t>(b)].from)
    regions.insert(regions.begin(), best[static_cast<std::size_t>(b)].regions.begin(),
                   best[static_cast<std::size_t>(b)].regions.end());
  return regions;
}

/// The bytes of a step in which these regions are recomputed, and its cost beyond that of its ops.
std::pair<StepBytes, double> RegionChoice::weigh(const std::vector<Region>& regions, double price) const {
  std::vector<HeldBytes> held;
  std::vector<std::int64_t> again(graph_.events.size() + 1, 0);  // saved in a recompute, by the event of forward
  std::vector<std::int64_t> inner(regions.size(), 0);            // bytes that a region saves when it runs again
  double cost = 0;
  for (const Region& region : regions) cost += region.seconds;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    const auto around =
        std::ranges::find_if(regions, [&](const Region& region) { return lies_within(tensor.made, region); });
    const bool is_input =
        std::ranges::any_of(regions, [&](const Region& region) { return is_held_for(tensor, region); });
    const bool is_inside = around != regions.end() && is_inner(tensor, *around) && !is_input;
    const bool leaves = around != regions.end() ? !is_inside : is_input && !tensor.is_there;
    const TensorWay& way = cheapest(i, leaves, price);
    if (is_inside) {
      inner[static_cast<std::size_t>(around - regions.begin())] += way.bytes + way.loaded;
      held.push_back({.later = way.bytes + way.loaded, .from = around->begin});
      again[graph_.tensors[i].made] += graph_.tensors[i].whole_bytes();
      again[graph_.tensors[i].birth] += held.back().later - graph_.tensors[i].whole_bytes();
    } else {
      held.push_back({.bytes = way.bytes, .later = way.loaded, .from = graph_.tensors[i].first_use});
      cost += way.cost;
    }
  }
  StepBytes bytes = graph_.bytes(held);
  const std::vector<std::int64_t> totals = graph_.totals(held);
  for (const Region& region : regions) {
    // Before the region's backward pass begins, its forward pass runs.
    std::int64_t saved = 0, highest = 0;
    for (std::size_t i = region.from; i < region.to; ++i) highest = std::max(highest, local_[i] + (saved += again[i]));
    bytes.peak = std::max(bytes.peak,
                          totals[region.begin] - inner[static_cast<std::size_t>(&region - regions.data())] + highest);
  }
  return {bytes, cost};
}

std::string RegionChoice::path(const Region& region) const {
  const Block& block = blocks_[static_cast<std::size_t>(region.first)];
  if (region.part >= 0) return block.parts[static_cast<std::size_t>(region.part)].region->path;
  if (region.first == region.last) return block.region->path;
  return BlockRange{block.region->sequence, block.region->index,
                    blocks_[static_cast<std::size_t>(region.last)].region->index}
      .path();
}

RegionChoice::Result RegionChoice::choose(std::int64_t budget,
                                          const std::function<std::int64_t(const StepBytes&)>& counted,
                                          bool of_saved) const {
  std::set<std::ptrdiff_t> lengths{count()};  // of runs: each takes the sequences in so many pieces
  for (std::ptrdiff_t pieces = 1; !of_saved && pieces <= count(); ++pieces)
    lengths.insert((count() + pieces - 1) / pieces);
  Result best;
  bool best_fits = false;
  for (const std::ptrdiff_t longest : lengths) {
    constexpr double least = 1e-15, most = 1e-3, step = 2;  // seconds a byte
    constexpr int halvings = 16;
    double low = 0, high = least;
    std::optional<std::pair<std::int64_t, double>> smallest;  // bytes and price
    const auto fits = [&](double price) {
      const std::int64_t bytes = counted(weigh(cheapest_regions(price, longest), price).first);
      if (!smallest || bytes < smallest->first) smallest = {bytes, price};
      return bytes <= budget;
    };
    while (high < most && !fits(high)) high = step * (low = high);
    if (smallest->first > budget) high = low = smallest->second;
    for (int i = 0; i < halvings && low > 0 && high > low; ++i) {
      const double middle = std::sqrt(low * high);
      (fits(middle) ? high : low) = middle;
    }
    std::vector<Region> regions = cheapest_regions(high, longest);
    auto [bytes, cost] = weigh(regions, high);
    // Drops what fits without: whole regions, and blocks at the ends of runs.
    std::ranges::sort(regions, std::greater(), &Region::seconds);
    for (std::size_t i = 0; i < regions.size();) {
      const Region now = regions[i];
      std::vector<std::vector<Region>> changes(now.first < now.last ? 3 : 1, regions);
      changes[0].erase(changes[0].begin() + static_cast<std::ptrdiff_t>(i));
      if (now.first < now.last) {
        changes[1][i] = run(now.first, now.last - 1);
        changes[2][i] = run(now.first + 1, now.last);
      }
      const bool changed = std::ranges::any_of(changes, [&](std::vector<Region>& change) {
        const auto [taken, costs] = weigh(change, high);
        if (counted(taken) > budget || costs >= cost) return false;
        regions = std::move(change);
        bytes = taken;
        cost = costs;
        return true;
      });
      if (!changed) ++i;
    }
    std::ranges::sort(regions, {}, [](const Region& region) { return std::pair(region.first, region.part); });
    const bool fit = counted(bytes) <= budget;
    if (!best.regions.empty() || best.bytes > 0)
      if (fit != best_fits ? best_fits : fit ? cost >= best.cost : counted(bytes) >= best.bytes) continue;
    best = {.regions = {}, .bytes = counted(bytes), .cost = cost};
    for (const Region& region : regions) best.regions.push_back(path(region));
    best_fits = fit;
  }
  return best;
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
