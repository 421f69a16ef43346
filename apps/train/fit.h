// Whether training fits into memory, and what would where it does not.
#pragma once

#include "apps/config/configuration.h"
#include "apps/train/measure.h"
#include "core/device.h"

#include <string>

namespace lacuna::apps {

/// Refuses a configuration whose training would not fit into the memory of its device, before anything is built.
/// `with_loader`: batches are prepared ahead, for the evaluation too.
void require_fit(const Configuration& configuration, Device device, bool with_loader);

/// What training takes at its highest by a plan, in bytes: batches that are prepared ahead included.
std::int64_t highest_need(const Measurement& planned);
/// Whether that is in an evaluation, which keeps nothing: no policy takes less.
bool evaluation_is_highest(const Measurement& planned);

/// What plans say would fit into `available` bytes: the largest batch under the configuration's policy, and what its
/// own batch takes in more parts, under `mesa`, and with all blocks recomputed; and the budget to ask `auto` for. Of
/// `auto` itself that budget alone, in more parts where it takes them. Lines of a report, each with keys to set.
std::string what_would_fit(const Configuration& configuration, std::int64_t available, bool with_loader);

/// Throws the exception in hand on; where memory ran out, with what would have fitted.
[[noreturn]] void rethrow_with_advice(const Configuration& configuration, bool with_loader);

/// Calls `work`, which trains. Where memory runs out in it, the error says besides what would have fitted.
template <class Work>
auto with_advice_when_exhausted(const Configuration& configuration, bool with_loader, const Work& work) {
  try {
    return work();
  } catch (...) {  // by now all tensors of `work` are gone, and planning has room
    rethrow_with_advice(configuration, with_loader);
  }
}

}  // namespace lacuna::apps
