// The error messages of rejected input.
#pragma once

#include "core/error.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace lacuna::test {

/// The message that `attempt` is refused with, which must be the input's fault; empty: it is not refused.
template <class Attempt>
std::string refusal_of(const Attempt& attempt) {
  try {
    attempt();
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return error.what();
  }
  return {};
}

/// Checks that a text has a part.
inline void check_says(std::string_view text, std::string_view part) {
  CAPTURE(text);
  CAPTURE(part);
  CHECK(text.find(part) != std::string_view::npos);
}

}  // namespace lacuna::test
