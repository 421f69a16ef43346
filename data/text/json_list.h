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

/// The object behind position `at` (0: the first one), which moves behind it; nothing at the end, where `at` is -1.
/// `line` is the line of `at`. Rejects what is no object between commas.
std::optional<JsonObject> next_in_list(const TextFile& file, std::int64_t& at, std::int64_t& line);

}  // namespace lacuna
