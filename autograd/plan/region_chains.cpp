#include "autograd/plan/region_chains.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace lacuna {
namespace {

struct Block {
  const GraphRegion* region;
  std::vector<const GraphRegion*> parts{};
};

std::vector<Block> blocks_of(const StepGraph& graph) {
  std::vector<Block> blocks;
  for (const GraphRegion& region : graph.regions) {
    if (!blocks.empty() && lies_in(region.path, blocks.back().region->path))
      blocks.back().parts.push_back(&region);
    else
      blocks.push_back({&region});
  }
  return blocks;
}

/// The last component of a region's path: `.attn` for `blocks.3.attn`.
std::string last_name(const GraphRegion& region) { return region.path.substr(region.path.rfind('.')); }

Regions all_of(const std::vector<Regions>& by_block) {
  Regions all;
  for (const Regions& regions : by_block) all.insert(all.end(), regions.begin(), regions.end());
  return all;
}

std::vector<Regions> alone(const std::vector<Block>& blocks, bool nested) {
  std::vector<Regions> by_block;
  for (const Block& block : blocks) {
    Regions& regions = by_block.emplace_back(Regions{block.region->path});
    for (std::size_t i = 0; nested && i < block.parts.size(); ++i) regions.push_back(block.parts[i]->path);
  }
  return by_block;
}

}  // namespace

std::vector<RegionChain> block_chains(const StepGraph& graph) {
  const std::vector<Block> blocks = blocks_of(graph);
  std::vector<std::string> names{"", "."};  // prefixes of part names: none, all parts
  std::vector<double> rates;                // bytes freed per second
  for (const Block& block : blocks) {
    rates.push_back(static_cast<double>(block.region->inner_bytes) / block.region->seconds);
    for (const GraphRegion* const part : block.parts)
      if (std::ranges::find(names, last_name(*part)) == names.end()) names.push_back(last_name(*part));
  }
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t block) { return rates[block]; });

  std::vector<RegionChain> chains;
  for (const std::string& name : names) {
    RegionChain& chain = chains.emplace_back(RegionChain{{}});
    std::vector<Regions> by_block(blocks.size());
    for (const std::size_t b : order) {
      if (name.empty()) break;
      for (const GraphRegion* const part : blocks[b].parts)
        if (last_name(*part).starts_with(name)) by_block[b].push_back(part->path);
      chain.push_back(all_of(by_block));
    }
    for (const std::size_t b : order) {
      by_block[b] = {blocks[b].region->path};
      chain.push_back(all_of(by_block));
    }
  }
  return chains;
}

std::vector<RegionChain> run_chains(const StepGraph& graph, bool from_all, bool of_peak) {
  const std::vector<Block> blocks = blocks_of(graph);
  std::vector<std::pair<std::size_t, std::size_t>> sequences;  // first block and end of each sequence
  std::size_t longest = 1;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const std::string& sequence = blocks[b].region->sequence;
    if (b == 0 || sequence.empty() || sequence != blocks[b - 1].region->sequence) sequences.emplace_back(b, b);
    sequences.back().second = b + 1;
    longest = std::max(longest, b + 1 - sequences.back().first);
  }
  std::vector<RegionChain> chains;
  const auto add = [&](std::size_t length, bool nested) {
    std::vector<Regions> by_block(blocks.size());
    if (from_all) by_block = alone(blocks, nested);
    RegionChain chain{all_of(by_block)};
    for (const auto& [first, end] : sequences)
      // Cuts the sequence into runs of nearly equal length.
      for (std::size_t pieces = (end - first + length - 1) / length, i = 0; i < pieces; ++i) {
        const std::size_t begin = first + (end - first) * i / pieces, stop = first + (end - first) * (i + 1) / pieces;
        if (!from_all) {
          by_block[begin] = {blocks[begin].region->path};
          chain.push_back(all_of(by_block));
        }
        const Regions own = by_block[begin];
        for (std::size_t b = begin + 1; b < stop; ++b) {
          const GraphRegion &from = *blocks[begin].region, &to = *blocks[b].region;
          by_block[begin] = {BlockRange{from.sequence, from.index, to.index}.path()};
          if (nested)
            by_block[begin].insert(by_block[begin].end(), own.begin(), own.end());
          else
            by_block[b].clear();
          chain.push_back(all_of(by_block));
        }
      }
    if (std::ranges::find(chains, chain) == chains.end()) chains.push_back(std::move(chain));
  };
  for (std::size_t length = of_peak ? 1 : longest; length <= longest; ++length) {
    add(length, false);
    if (of_peak && from_all) add(length, true);
  }
  return chains;
}

std::string describe(const StepGraph& graph, const Regions& regions) {
  const std::vector<Block> blocks = blocks_of(graph);
  std::ptrdiff_t whole = 0, parts = 0, runs = 0;
  for (const Block& block : blocks) {
    const auto covers = [&](const std::string& region) { return lies_in(block.region->path, region); };
    whole += std::ranges::any_of(regions, covers) ? 1 : 0;
    for (const GraphRegion* const part : block.parts) parts += std::ranges::count(regions, part->path);
  }
  for (const std::string& region : regions) runs += parse_block_range(region) ? 1 : 0;
  std::string text = fmt::format("recomputed: {} of {} blocks", whole, blocks.size());
  if (runs > 0) text += fmt::format(", in {} {} of several", runs, runs == 1 ? "run" : "runs");
  if (parts > 0) text += fmt::format(" and {} {} of blocks", parts, parts == 1 ? "part" : "parts");
  return text;
}

}  // namespace lacuna
