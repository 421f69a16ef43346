// Rates of this machine, kept from run to run: one configuration has one plan on it.
#pragma once

#include "apps/train/step_time.h"

#include <filesystem>

namespace lacuna::apps {

/// Rates with as many threads as are set: those of `rates_file`, or measured in a tenth of a second or two and kept
/// there; nominal ones where that cannot be written. An entry is of the processor's model, the build and its vectors,
/// the threads and the version. Measuring takes `bytes_to_measure_rates` for as long.
const Rates& measured_rates();

/// `lacuna/rates.json` in $XDG_CACHE_HOME, or in .cache of $HOME; empty where neither is set.
std::filesystem::path rates_file();

}  // namespace lacuna::apps
