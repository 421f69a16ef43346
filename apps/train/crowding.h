// Threads that have no processors of their own.
#pragma once

#include <string_view>

namespace lacuna::apps {

/// Warns on standard error if more compute threads are set than CPUs are available. A command calls it once, before it
/// computes.
void warn_if_crowded();

/// Notes that other processes are busy where a step in `precision` suffers most from that: oneDNN's threads wait for
/// each other without sleep in the weight gradients of convolutions in bf16.
void note_if_shared(std::string_view precision);

}  // namespace lacuna::apps
