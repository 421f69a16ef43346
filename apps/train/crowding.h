// Threads that have no processors of their own.
#pragma once

namespace lacuna::apps {

/// Warns on standard error if more compute threads are set than CPUs are available. A command calls it once, before it
/// computes.
void warn_if_crowded();

}  // namespace lacuna::apps
