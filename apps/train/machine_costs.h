// The costs of operations on this machine, as `lacuna doctor --calibrate` measures them.
#pragma once

#include "autograd/plan/cost_table.h"

#include <filesystem>

namespace lacuna::apps {

/// The costs of `costs_file`, where it has an entry for this processor, build and number of threads; else nominal.
CostTable machine_costs();

/// `lacuna/costs.json` in $XDG_CACHE_HOME, or in .cache of $HOME; empty where neither is set.
std::filesystem::path costs_file();

/// Measures the costs with as many threads as are set, in a tenth of a second or two, and writes them into
/// `costs_file`. Only ratios to the nominal rate of matrix products count, rounded to powers of the square root of two.
/// `disk`: a folder on the disk of memory.offload, which is measured too; empty: its rate stays as it was.
CostTable calibrate(const std::filesystem::path& disk = {});

}  // namespace lacuna::apps
