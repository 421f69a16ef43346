// Candidates for the blocks of a model to recompute: chains of sets of regions.
#pragma once

#include "autograd/plan/step_graph.h"

#include <string>
#include <vector>

namespace lacuna {

using Regions = std::vector<std::string>;
/// Sets of recomputed regions, each with fewer bytes and more time than the one before. A chain starts with no region,
/// or with every block as its own region.
using RegionChain = std::vector<Regions>;

/// Chains that add block after block, the one that frees the most bytes per second first. One chain adds whole blocks;
/// the others first add one part of each block (`attn`) or all its parts, then replace them by the whole blocks.
/// `graph`: the graph of a step that recomputes nothing.
std::vector<RegionChain> block_chains(const StepGraph& graph);
/// Chains of runs: consecutive blocks recomputed as one region. Runs grow block by block, one run after the other, from
/// no region or (`from_all`) from every block as its own region. `of_peak`: makes a chain for each length of runs and,
/// with `from_all`, also one with blocks and their parts recomputed within the runs, which saves the same bytes but
/// lowers the peak. Otherwise a run may be as long as its sequence.
std::vector<RegionChain> run_chains(const StepGraph& graph, bool from_all, bool of_peak);

/// The regions as text: `recomputed: 7 of 12 blocks`, with the numbers of runs and of parts.
std::string describe(const StepGraph& graph, const Regions& regions);

}  // namespace lacuna
