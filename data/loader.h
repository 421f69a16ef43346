// Batches prepared ahead of the step by worker threads. The batches are a function of the options alone: they depend
// neither on the number of workers nor on where an earlier run stopped.
#pragma once

#include "data/pipeline.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

namespace lacuna {

struct LoaderOptions {
  std::int64_t first_epoch = 0,
               first_sample = 0;  // the start: a resumed run gives the samples it has seen of the epoch
  std::int64_t end_epoch = std::numeric_limits<std::int64_t>::max();  // the loader ends before this epoch
  int workers = 1;                                                    // threads, which share the samples of a batch
  int depth = 2;                                                      // batches prepared ahead, at most
};

class Loader {
 public:
  /// Starts the workers. Memory is of Purpose::data: `depth` batches without their late transforms, the one that the
  /// caller keeps, and each worker's samples that are not written to the batch directly. The ledger lists batches
  /// prepared ahead under the op `loader`, samples under `sample`, and the batch that was handed out under `batch`.
  explicit Loader(Batches batches, const LoaderOptions& options = {});
  /// Stops the workers; waits for the samples that they are reading, not for their batches.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const Batches& batches() const;
  std::int64_t steps_per_epoch() const { return batches().count(); }

  /// The next batch, finished by the threads of the caller; nothing after the last epoch. Throws an error that a worker
  /// met while preparing it. The batch is the caller's alone. For one thread.
  std::optional<Batch> next();

 private:
  class Workers;
  std::unique_ptr<Workers> workers_;
};

}  // namespace lacuna
