// Whether training fits into memory, and what would where it does not.
#pragma once

#include "apps/config/experiment.h"
#include "apps/train/measure.h"
#include "core/device.h"

#include <string>

namespace lacuna::apps {

/// Refuses a configuration whose training would not fit into the memory of its device, before anything is built.
/// `with_loader`: batches are prepared ahead, for the evaluation too.
void require_fit(Setup& planned, const Experiment& experiment, Device device, bool with_loader);

/// The same for the evaluation of a model alone.
void require_fit_to_evaluate(const Experiment& experiment);

/// Bytes of a card's memory that a plan gives to the tensors of one of `ranks`: less what libraries, the driver's
/// context, gaps in a captured step's memory, and NCCL take. They do not depend on what other programs hold.
std::int64_t room_on(const Card& card, int ranks);

/// Bytes of the device's memory that training can have: of several processes on this machine, the part of each.
std::int64_t room_for_training(const Experiment& experiment);

/// The same, on a GPU at most `room_on` it; of `plan --card` that of the card.
std::int64_t room_to_plan(const Experiment& experiment);

/// Bytes of the process outside tensors: those it holds now, and those that a run adds.
std::int64_t memory_beside_tensors();

/// Peak of training by a plan, in bytes. Batches that are prepared ahead are included.
std::int64_t highest_need(const Measurement& planned);
/// Bytes of the batches that are prepared ahead while a step runs.
std::int64_t prefetched(const Measurement& planned);
/// Bytes that a step takes, prepared batches included.
std::int64_t step_need(const Measurement& planned);
/// Bytes that an evaluation takes, prepared batches included.
std::int64_t evaluation_need(const Measurement& planned);
/// Whether that is in an evaluation, which keeps nothing: no policy takes less.
bool evaluation_is_highest(const Measurement& planned);

/// Settings that fit into `available` bytes, a line each, with the keys to set: bf16 in place of f32; the batch halved
/// until it fits; `accumulate` doubled; the planner's answer to such a budget. `setup`: of the configuration on `meta`,
/// where another one would be counted as well. `needed`: by the configuration as it is, if known.
std::string what_would_fit(Setup& setup, const Experiment& experiment, std::int64_t available, bool with_loader,
                           std::int64_t needed = 0);

/// Rethrows the current exception; an out-of-memory error gets advice on settings that would fit.
[[noreturn]] void rethrow_with_advice(const Experiment& experiment, bool with_loader);

/// Calls `work`, which trains. An out-of-memory error in it gets advice on settings that would fit.
template <class Work>
auto with_advice_when_exhausted(const Experiment& experiment, bool with_loader, const Work& work) {
  try {
    return work();
  } catch (...) {  // the tensors of `work` are freed by now, so planning has room
    rethrow_with_advice(experiment, with_loader);
  }
}

}  // namespace lacuna::apps
