// YAML, read strictly: every value knows where it stands, a key stands once, nothing is guessed.
#pragma once

#include "core/tree.h"

#include <string>

namespace lacuna {

/// Reads one document. Duplicate keys, aliases, tags and deep nesting are problems; text that is no YAML is refused at
/// once. An empty document is an empty map. Where `start` has no line, it is the location of everything.
Tree parse_yaml(const std::string& text, const Location& start, Problems& problems);

}  // namespace lacuna
