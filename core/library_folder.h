// The folder of the libraries that liblacuna opens.
#pragma once

#include <filesystem>

namespace lacuna {

/// The folder of liblacuna; where the loader chose it for this processor from lib/glibc-hwcaps/LEVEL, that is lib.
/// Empty if the system does not say.
std::filesystem::path library_folder();

}  // namespace lacuna
