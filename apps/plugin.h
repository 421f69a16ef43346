// Shared objects with ops, models, data sets and the like of one's own.
#pragma once

#include <string>
#include <vector>

namespace lacuna::apps {

/// Loads a shared object, whose static objects register what it brings; it stays loaded. Throws Error (Fault::input) if
/// the file is missing, is no shared object, was built against another version of Lacuna or registers nothing.
void load_plugin(const std::string& file);

/// Files that were loaded, in order: child processes load them too.
const std::vector<std::string>& loaded_plugins();

/// Loads the files of the options `--load FILE` and `--load=FILE` in `words` and removes these words. Throws Error as
/// above, or if the last of them has no file.
void load_plugins(std::vector<std::string>& words);

}  // namespace lacuna::apps
