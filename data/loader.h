// Batches prefetched by worker threads. They are a function of the options alone, independent of the number of workers
// and of where an earlier run stopped.
#pragma once

#include "data/pipeline.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

namespace lacuna {

struct LoaderOptions {
  std::int64_t first_epoch = 0,
               first_sample = 0;  // the start; a resumed run passes the samples it has consumed of the epoch
  std::int64_t end_epoch = std::numeric_limits<std::int64_t>::max();  // exclusive
  int workers = 1;  // worker threads, which split the samples of each batch
  int depth = 2;    // maximum number of prefetched batches
};

class Loader {
 public:
  /// Starts the workers. They use memory of Purpose::data: `depth` batches before late transforms, the batch that the
  /// caller holds, and the samples that a worker cannot write directly into the batch. The ledger lists prefetched
  /// batches under the op `loader`, samples under `sample`, and the returned batch under `batch`.
  explicit Loader(Batches batches, const LoaderOptions& options = {});
  /// Stops the workers. It waits for the samples being read, not for whole batches.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const Batches& batches() const;
  std::int64_t steps_per_epoch() const { return batches().count(); }

  /// Returns the next batch, or nothing after the last epoch. The caller's threads run the late transforms. Rethrows an
  /// error from the worker that prepared the batch. The batch shares no memory with the loader. Not thread-safe.
  std::optional<Batch> next();

 private:
  class Workers;
  std::unique_ptr<Workers> workers_;
};

}  // namespace lacuna
