// Which blocks of a model to recompute: sets of regions in an order in which each takes fewer bytes and more time.
#pragma once

#include "autograd/plan/step_graph.h"

#include <string>
#include <vector>

namespace lacuna {

using Regions = std::vector<std::string>;
/// From nothing recomputed, or from all blocks alone, to the fewest bytes.
using RegionChain = std::vector<Regions>;

/// One block after the other, the one that frees most bytes per second first: whole, or one part of each (`attn`) or
/// all its parts, then the whole. `graph` is of a step that recomputes nothing.
std::vector<RegionChain> block_chains(const StepGraph& graph);
/// Runs of several blocks, recomputed as one region each: they grow by a block, one run after the other, from nothing
/// or
/// (`from_all`) from all blocks alone. `of_peak`: a chain for each length of runs, and of those from all blocks also
/// one with blocks and their parts recomputed within the runs, which saves no less but lowers the peak. Otherwise the
/// runs may be as long as their sequence.
std::vector<RegionChain> run_chains(const StepGraph& graph, bool from_all, bool of_peak);

/// `7 of 12 blocks recomputed`, and what else.
std::string describe(const StepGraph& graph, const Regions& regions);

}  // namespace lacuna
