// Threads that have no processors of their own.
#pragma once

namespace lacuna::apps {

/// Warns once on standard error if more compute threads are configured than CPUs are available.
void warn_if_crowded();

}  // namespace lacuna::apps
