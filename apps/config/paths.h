// Paths in a configuration.
#pragma once

#include "apps/config/configuration.h"

#include <filesystem>
#include <functional>
#include <string>

namespace lacuna::apps {

/// `~` and `~/...` in the home folder ($HOME, or the user's entry in the password file), `~name/...` in that user's;
/// any other path as it is.
std::filesystem::path expand_home(const std::filesystem::path& path);

/// Says that `path` does not exist; for a name of the Hugging Face hub, with the command that fetches it.
std::string missing_text(const std::string& path);

/// Replaces every path in a configuration by `change` of it.
void change_paths(Configuration& configuration, const std::function<std::string(const std::string&)>& change);

/// The same configuration with paths that hold in any working folder.
Configuration with_absolute_paths(Configuration configuration);

}  // namespace lacuna::apps
