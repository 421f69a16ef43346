#include "apps/train/loader_cost.h"

#include "apps/config/resolve.h"
#include "core/parallel.h"
#include "data/dataset.h"

#include <time.h>

#include <algorithm>

namespace lacuna::apps {
namespace {

/// Processor time of this thread, in seconds.
double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

std::optional<double> loader_cost(const Experiment& experiment, std::int64_t batches) {
  const Configuration::Data& data = experiment.data;
  if (dataset_kinds().get(data.name).reads_files && data.source.path.empty()) return {};
  const Batches all =
      batches_of(experiment, open_dataset(data.name, dataset_options(experiment, Split::train)), Split::train);
  const BatchMemory memory = all.allocate();
  Sample sample;
  const std::int64_t timed = std::min(batches, std::max<std::int64_t>(all.count() - 1, 1));
  const ThreadCountScope alone(1);  // whose time is taken
  double begin = 0;
  for (std::int64_t i = 0; i <= timed; ++i) {
    if (i == 1) begin = thread_seconds();
    all.read(0, i % all.count() * all.size(), memory, sample);
  }
  return (thread_seconds() - begin) / static_cast<double>(timed);
}

}  // namespace lacuna::apps
