// Threads that have no processors of their own.
#pragma once

namespace lacuna::apps {

/// Says on standard error, once, where more threads are to compute than this process has processors. Whoever is about
/// to compute calls it first.
void warn_if_crowded();

}  // namespace lacuna::apps
