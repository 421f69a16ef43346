// `key=value` of the command line.
#pragma once

#include "apps/config/schema.h"
#include "core/tree.h"

#include <optional>
#include <string>
#include <string_view>

namespace lacuna::apps {

/// `key=value`, where `value` is YAML, as an entry of the full key. Short forms are completed:
///   `model=resnet50`   model.name, the choice of the section; a file or folder sets its path: `data=pictures`
///   `epochs=3`         train.epochs, the only section with that key
/// Its location is the command line. Nothing where it is no such text, which becomes a problem.
std::optional<TreeEntry> parse_assignment(std::string_view assignment, Problems& problems);
/// Whether `assignment` sets `section.key`, by itself or with its whole section.
bool sets(std::string_view assignment, std::string_view section, std::string_view key);
/// Whether `assignment` is a section's short form with a path. What lies there is recognized anew: the choice of a file
/// is of another path.
bool names_path_of(const Section& section, std::string_view assignment);
/// Sets `path.to.key=value` in `root`, where `value` is YAML. Its location is the command line.
void apply_override(Tree& root, std::string_view assignment, Problems& problems);

}  // namespace lacuna::apps
