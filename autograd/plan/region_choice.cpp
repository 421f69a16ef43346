#include "autograd/plan/region_choice.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace lacuna {
namespace {

/// A part of a model's forward pass that can run again.
struct Part {
  const GraphRegion* region;
  double seconds = 0;            // up to the last op whose result backward reads
  std::size_t from = 0, to = 0;  // the events of forward that run again: up to before `to`
  std::size_t begin = 0;         // the first event of its backward pass
};

struct Block : Part {
  std::vector<Part> parts{};
  double all_seconds = 0;  // its whole forward pass
};

/// The block and the part of it that a path lies in; -1: none.
struct Place {
  std::ptrdiff_t block = -1, part = -1;
  bool operator==(const Place&) const = default;
};

/// A recomputed region: the blocks from `first` to `last`, or a part of one.
struct Region {
  std::ptrdiff_t first, last, part;  // part -1: whole blocks
  double seconds;
  std::size_t from, to, begin;

  bool has(const Place& place) const {
    return place.block >= first && place.block <= last && (part < 0 || place.part == part);
  }
};

struct PlacedTensor {
  Place made{};
  std::vector<Place> users{}, readers{};     // in forward and backward
  bool is_whole = false;                     // held or rematerialized as values
  std::vector<TensorWay> ways{}, leaving{};  // the latter as an input or output of a region

  /// Whether it lives in the region alone.
  bool is_inner(const Region& region) const {
    return std::ranges::all_of(readers, [&](const Place& reader) { return region.has(reader); });
  }
};

/// The regions of a set by place: at most one run of blocks lies over a block, and one region over a part of it.
class RegionsByPlace {
 public:
  RegionsByPlace(const std::vector<Region>& regions, std::ptrdiff_t blocks)
      : runs_(static_cast<std::size_t>(blocks)), parts_(runs_.size()) {
    for (const Region& region : regions) {
      if (region.part >= 0)
        parts_[static_cast<std::size_t>(region.first)].push_back(&region);
      else
        for (std::ptrdiff_t b = region.first; b <= region.last; ++b) runs_[static_cast<std::size_t>(b)] = &region;
    }
  }

  template <class With>
  void for_each_at(const Place& place, const With& with) const {
    if (place.block < 0) return;
    const auto block = static_cast<std::size_t>(place.block);
    if (runs_[block] != nullptr) with(*runs_[block]);
    for (const Region* const part : parts_[block])
      if (part->part == place.part) with(*part);
  }

 private:
  std::vector<const Region*> runs_;  // [blocks]
  std::vector<std::vector<const Region*>> parts_;
};

struct Candidate {
  std::vector<Region> regions{};
  double price = 0;
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max(), saved = 0;
  double cost = 0;  // beyond that of the step's ops
};

class Chooser {
 public:
  Chooser(const StepGraph& graph, const WaysOf& ways, const CountBytes& count, std::int64_t budget)
      : graph_(graph), count_(count), budget_(budget) {
    for (const GraphRegion& region : graph.regions) {
      const bool is_block = blocks_.empty() || !lies_in(region.path, blocks_.back().region->path);
      if (is_block) {
        blocks_.push_back({measured(region)});
        for (const StepGraph::Event& event : graph.events)
          if (!event.backward && lies_in(event.path, region.path)) blocks_.back().all_seconds += event.seconds;
      } else if (std::vector<Part>& parts = blocks_.back().parts;
                 parts.empty() || !lies_in(region.path, parts.back().region->path)) {
        parts.push_back(measured(region));  // parts of parts are no choice
      }
    }
    local_.resize(graph.events.size() + 1);
    for (const GraphTensor& tensor : graph.tensors) {
      PlacedTensor& added =
          tensors_.emplace_back(PlacedTensor{.ways = ways(tensor, false), .leaving = ways(tensor, true)});
      added.is_whole = tensor.can_rematerialize || tensor.can_quantize || tensor.held_bytes >= tensor.size.exact_bytes;
      if (!tensor.is_input) added.made = place(tensor.path);
      for (const std::string& user : tensor.users) added.users.push_back(place(user));
      for (const std::string& reader : tensor.readers) added.readers.push_back(place(reader));
      if (tensor.is_input) continue;
      // A tensor is whole until backward is known to read only its held form.
      local_[tensor.made] -= tensor.whole_bytes();
      local_[std::min(tensor.birth, graph.events.size())] += tensor.whole_bytes() - tensor.held_bytes;
    }
    std::partial_sum(local_.begin(), local_.end(), local_.begin());
    for (std::size_t i = 0; i < graph.events.size(); ++i) local_[i] += graph.events[i].peak - graph.events.front().peak;
  }

  std::vector<RegionChoice> choose() {
    std::vector<Candidate> candidates;
    constexpr double highest = 1e-5, lowest = 1e-13, step = 4;  // seconds a byte
    double least = std::numeric_limits<double>::infinity();     // cost of a step that fits
    for (double price = highest; price > lowest; price /= step) {
      Candidate found = weighed({}, price);
      std::vector<Candidate> fewer;  // some of the sets on the way, in case that the prediction is too high
      while (found.bytes > budget_ && found.cost < least) {
        if (std::popcount(found.regions.size()) <= 1) fewer.push_back(found);
        std::optional<Candidate> next = best_added(found);
        if (!next) break;
        found = std::move(*next);
      }
      if (found.bytes > budget_) candidates.insert(candidates.end(), fewer.begin(), fewer.end());
      if (found.bytes > budget_ && found.cost < least) {
        // No single region helps: all blocks do, or all blocks with their parts.
        std::vector<Region> all, nested;
        for (std::ptrdiff_t b = 0; b < count(); ++b) {
          all.push_back(run(b, b));
          for (std::ptrdiff_t p = 0; p < std::ssize(block(b).parts); ++p) nested.push_back(part(b, p));
        }
        nested.insert(nested.end(), all.begin(), all.end());
        for (const std::vector<Region>& regions : {all, nested})
          if (Candidate other = weighed(regions, price); key(other) < key(found)) found = std::move(other);
      }
      drop(found);
      if (found.bytes <= budget_) least = std::min(least, found.cost);
      candidates.push_back(std::move(found));
    }
    const auto is_better = [this](const Candidate& a, const Candidate& b) { return key(a) < key(b); };
    std::ranges::stable_sort(candidates, is_better);
    exchange(candidates.front());
    std::vector<RegionChoice> choices;
    for (Candidate& one : candidates) {
      std::ranges::sort(one.regions, {}, [](const Region& region) { return std::pair(region.first, region.part); });
      RegionChoice choice{.bytes = one.bytes, .seconds = one.cost + graph_.seconds()};
      for (const Region& region : one.regions) choice.regions.push_back(path(region));
      if (std::ranges::find(choices, choice.regions, &RegionChoice::regions) == choices.end())
        choices.push_back(std::move(choice));
    }
    return choices;
  }

 private:
  Part measured(const GraphRegion& region) const {
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

  std::ptrdiff_t count() const { return std::ssize(blocks_); }
  const Block& block(std::ptrdiff_t index) const { return blocks_[static_cast<std::size_t>(index)]; }
  Place place(const std::string& path) const {
    for (std::ptrdiff_t b = 0; b < count(); ++b)
      if (lies_in(path, block(b).region->path)) {
        const std::vector<Part>& parts = block(b).parts;
        const auto part = std::ranges::find_if(parts, [&](const Part& one) { return lies_in(path, one.region->path); });
        return {b, part == parts.end() ? -1 : part - parts.begin()};
      }
    return {};
  }
  Region run(std::ptrdiff_t first, std::ptrdiff_t last) const {
    Region region{first, last, -1, block(last).seconds, block(first).from, block(last).to, block(last).begin};
    for (std::ptrdiff_t b = first; b < last; ++b) region.seconds += block(b).all_seconds;
    return region;
  }
  Region part(std::ptrdiff_t b, std::ptrdiff_t index) const {
    const Part& part = block(b).parts[static_cast<std::size_t>(index)];
    return {b, b, index, part.seconds, part.from, part.to, part.begin};
  }
  std::string path(const Region& region) const {
    const GraphRegion &first = *block(region.first).region, &last = *block(region.last).region;
    if (region.part >= 0) return block(region.first).parts[static_cast<std::size_t>(region.part)].region->path;
    return region.first == region.last ? first.path : BlockRange{first.sequence, first.index, last.index}.path();
  }

  std::pair<std::int64_t, double> key(const Candidate& one) const { return {std::max(one.bytes, budget_), one.cost}; }

  /// The way that costs least at a price, as `ways` and `leaving` of a tensor have it.
  struct Cheapest {
    const TensorWay *staying, *leaving;
  };
  const std::vector<Cheapest>& cheapest_at(double price) const {
    if (price == priced_) return cheapest_;
    const auto least = [&](const std::vector<TensorWay>& ways) {
      return &*std::ranges::min_element(
          ways, {}, [&](const TensorWay& one) { return one.cost + price * static_cast<double>(one.bytes); });
    };
    cheapest_.clear();
    for (const PlacedTensor& tensor : tensors_) cheapest_.push_back({least(tensor.ways), least(tensor.leaving)});
    priced_ = price;
    return cheapest_;
  }

  /// The bytes and the cost of a step in which these regions are recomputed. Parts may lie in recomputed blocks.
  Candidate weighed(std::vector<Region> regions, double price) const {
    struct Recompute {
      std::vector<std::int64_t> saved{};  // changes of what it has saved, by op
      std::int64_t all = 0;
    };
    std::vector<Recompute> recomputes;
    Candidate result{std::move(regions), price};
    for (const Region& region : result.regions) {
      result.cost += region.seconds;
      recomputes.push_back({std::vector<std::int64_t>(region.to + 1 - region.from, 0), 0});
    }
    const RegionsByPlace at_place(result.regions, count());
    const std::vector<Cheapest>& cheapest = cheapest_at(price);
    std::vector<HeldBytes> held;
    held.reserve(tensors_.size());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const PlacedTensor& tensor = tensors_[i];
      const GraphTensor& recorded = graph_.tensors[i];
      const Region* inside = nullptr;  // the innermost region that has the tensor alone
      bool leaves = false;
      at_place.for_each_at(tensor.made, [&](const Region& region) {
        if (!tensor.is_inner(region))
          leaves = true;
        else
          inside = &region;
      });
      for (const Place& user : tensor.users)
        at_place.for_each_at(user, [&](const Region& region) {  // an input of it
          if (region.has(tensor.made)) return;
          leaves = leaves || !tensor.is_whole;
          if (inside != nullptr && (inside->part >= 0 || region.first < inside->first || region.last > inside->last))
            inside = nullptr;
        });
      const TensorWay& way = leaves ? *cheapest[i].leaving : *cheapest[i].staying;
      if (inside == nullptr) {
        held.push_back({.bytes = way.bytes, .later = way.later, .from = recorded.first_use});
        result.cost += way.cost;
        continue;
      }
      held.push_back({.later = way.bytes + std::max<std::int64_t>(way.later, 0), .from = inside->begin});
      Recompute& again = recomputes[static_cast<std::size_t>(inside - result.regions.data())];
      const auto at = [&](std::size_t event) -> std::int64_t& {
        return again.saved[std::clamp(event, inside->from, inside->to) - inside->from];
      };
      again.all += held.back().later;
      at(recorded.made) += recorded.whole_bytes();
      at(recorded.birth) += held.back().later - recorded.whole_bytes();
    }
    const std::vector<std::int64_t> totals = graph_.totals(held);
    StepBytes bytes{.saved = graph_.saved(held), .peak = std::ranges::max(totals)};
    for (std::size_t r = 0; r < result.regions.size(); ++r) {
      // Before the region's backward pass begins, its forward pass runs.
      const Region& region = result.regions[r];
      const StepGraph::Event& begin = graph_.events[region.begin];
      const std::int64_t base = totals[region.begin] - begin.peak + begin.live - recomputes[r].all;
      std::int64_t saved = 0;
      for (std::size_t i = region.from; i < region.to; ++i)
        bytes.peak = std::max(bytes.peak, base + local_[i] + (saved += recomputes[r].saved[i - region.from]));
    }
    result.bytes = count_(bytes);
    result.saved = bytes.saved;
    return result;
  }

  /// Calls `with` with each set that has one more region, or one more block in a run.
  template <class With>
  void for_each_added(const std::vector<Region>& regions, const With& with) const {
    const auto add = [&](const Region& added) {
      std::vector<Region> more = regions;
      std::erase_if(more, [&](const Region& one) {
        return added.part < 0 && one.first >= added.first && one.last <= added.last;
      });
      more.push_back(added);
      with(std::move(more));
    };
    const auto run_of = [&](std::ptrdiff_t b) {
      return std::ranges::find_if(regions, [&](const Region& one) { return one.part < 0 && one.has({b, -1}); });
    };
    for (std::ptrdiff_t b = 0; b < count(); ++b) {
      const auto covered = run_of(b);
      if (covered == regions.end()) {
        add(run(b, b));
      } else if (covered->last == b && b + 1 < count() && !block(b).region->sequence.empty() &&
                 block(b).region->sequence == block(b + 1).region->sequence) {
        const auto next = run_of(b + 1);
        add(run(covered->first, next == regions.end() ? b + 1 : next->last));
      }
      for (std::ptrdiff_t p = 0; p < std::ssize(block(b).parts); ++p)
        if (std::ranges::none_of(regions, [&](const Region& one) { return one.first == b && one.part == p; }))
          add(part(b, p));
    }
  }

  /// With the region that frees the most bytes per second; if none lowers the peak, the most saved ones.
  std::optional<Candidate> best_added(const Candidate& from) const {
    std::optional<Candidate> best;
    std::pair<bool, double> best_rate;
    for_each_added(from.regions, [&](std::vector<Region> regions) {
      Candidate more = weighed(std::move(regions), from.price);
      const bool is_lower = more.bytes < from.bytes;
      const std::int64_t freed = is_lower ? from.bytes - more.bytes : from.saved - more.saved;
      if (freed <= 0) return;
      constexpr double least_seconds = 1e-12;
      const std::pair rate(is_lower, static_cast<double>(freed) / std::max(more.cost - from.cost, least_seconds));
      if (best && rate <= best_rate) return;
      best_rate = rate;
      best = std::move(more);
    });
    return best;
  }

  /// Drops regions, and blocks at the ends of runs, that the step fits without or is smaller without.
  void drop(Candidate& from) const {
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
            Candidate fewer = weighed(std::move(change), from.price);
            if (from.bytes > budget_ ? fewer.bytes >= from.bytes : key(fewer) >= key(from)) return false;
            from = std::move(fewer);
            return true;
          }))
        ++i;
    }
  }

  /// Adds a region where others can be dropped for it.
  void exchange(Candidate& best) const {
    constexpr int passes = 3;
    for (int pass = 0; pass < passes; ++pass) {
      const Candidate before = best;
      for_each_added(before.regions, [&](std::vector<Region> regions) {
        Candidate exchanged = weighed(std::move(regions), before.price);
        drop(exchanged);
        if (key(exchanged) < key(best)) best = std::move(exchanged);
      });
      if (key(best) >= key(before)) return;
    }
  }

  const StepGraph& graph_;
  const CountBytes& count_;
  std::int64_t budget_;
  std::vector<Block> blocks_{};
  std::vector<PlacedTensor> tensors_{};
  std::vector<std::int64_t> local_{};  // [events]: transient memory of each forward op
  mutable std::vector<Cheapest> cheapest_{};
  mutable double priced_ = -1;
};

}  // namespace

std::vector<RegionChoice> choose_regions(const StepGraph& graph, const WaysOf& ways, const CountBytes& count,
                                         std::int64_t budget) {
  return Chooser(graph, ways, count, budget).choose();
}

}  // namespace lacuna
