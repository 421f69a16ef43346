// The objects of a file that is one JSON list, found by blocks.
#pragma once

#include "data/text/text_file.h"

#include <cstdint>
#include <optional>

namespace lacuna {

/// Whether the first sign of the file is that of a list.
bool is_json_list(const TextFile& file);

struct JsonObject {
  std::int64_t begin, bytes, line;
};

/// Reads the next object of the list from byte `at` on and moves `at` behind it; at the end it returns nothing and sets
/// `at` to -1. `line` counts lines along. Rejects elements that are not objects, and commas that are missing.
std::optional<JsonObject> next_in_list(const TextFile& file, std::int64_t& at, std::int64_t& line);

}  // namespace lacuna
