// JSON that something else may have written.
#pragma once

#include "core/error.h"

#include <nlohmann/json.hpp>

#include <string_view>

namespace lacuna {

/// Rejects a text of JSON that is nested deeper than 64 levels: copies and messages of its values go down by recursion.
/// `source` names the text in the message.
void check_json_depth(std::string_view text, std::string_view source);

/// Parses a text. Rejects a text that is no JSON or is nested too deep.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text, std::string_view source) {
  check_json_depth(text, source);
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception& error) {  // the error states line and column
    reject("{}: expected JSON: {}", source, error.what());
  }
}

}  // namespace lacuna
