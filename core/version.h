// The version of Lacuna. A shared object that includes a header with registrations refers to the version's symbol, so
// loading it into another version fails before any of its code runs.
#pragma once

// CMakeLists.txt reads the project's version from this line.
#define LACUNA_VERSION_SYMBOL lacuna_version_0_1_0

extern "C" const int LACUNA_VERSION_SYMBOL;

namespace lacuna::detail {
[[gnu::used]] inline const int* const built_against = &LACUNA_VERSION_SYMBOL;
}  // namespace lacuna::detail
