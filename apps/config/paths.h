// Paths in a configuration.
#pragma once

#include "apps/config/configuration.h"

#include <filesystem>
#include <string>
#include <vector>

namespace lacuna::apps {

/// `~` and `~/...` in the home folder ($HOME, or the user's entry in the password file), `~name/...` in that user's;
/// any other path as it is.
std::filesystem::path expand_home(const std::filesystem::path& path);

/// Every path in a configuration.
std::vector<std::string*> paths_in(Configuration& configuration);

/// The same configuration with paths that hold in any working folder.
Configuration with_absolute_paths(Configuration configuration);

}  // namespace lacuna::apps
