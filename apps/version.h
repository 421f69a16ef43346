// Version and git commit of this build.
#pragma once

#include <string>
#include <string_view>

namespace lacuna::apps {

/// Abbreviated, with `-dirty` where files had changed; empty: built outside a git checkout.
std::string_view commit();
/// As `0.1.0 (719abd1)`.
std::string version_and_commit();

}  // namespace lacuna::apps
