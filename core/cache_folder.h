// The folder for measurements of this machine, kept between runs.
#pragma once

#include <filesystem>

namespace lacuna {

/// `lacuna` in $XDG_CACHE_HOME, or in .cache of $HOME; empty where neither is set.
std::filesystem::path cache_folder();

}  // namespace lacuna
