#include "core/json.h"

namespace lacuna {

void check_json_depth(std::string_view text, std::string_view source) {
  constexpr int deepest = 64;
  bool in_text = false;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_text = !in_text;
    } else if (!in_text && (c == '{' || c == '[')) {
      if (++depth > deepest) reject("{}: expected JSON of {} levels at most, got a deeper one", source, deepest);
    } else if (!in_text && (c == '}' || c == ']')) {
      --depth;
    }
  }
}

}  // namespace lacuna
