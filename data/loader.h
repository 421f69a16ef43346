// Batches, prepared ahead of the step by worker threads. What comes out is a function of the options alone: not of the
// number of workers, nor of where an earlier run stopped.
#pragma once

#include "core/tensor.h"
#include "data/dataset.h"
#include "data/transforms.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

namespace lacuna {

struct Batch {
  Tensor images;   // f32 [batch, height, width, channels]
  Tensor targets;  // i64 [batch]
  std::int64_t epoch = 0;
  std::int64_t first = 0;  // of its images in the epoch's order
};

struct LoaderOptions {
  std::int64_t batch_size = 128;
  bool shuffle = false;                           // another order in every epoch
  bool drop_last = false;                         // leave out a last batch that is not full
  std::uint64_t seed = 1;                         // of order and augmentation
  std::int64_t first_epoch = 0, first_image = 0;  // where to begin: a resumed run names what it has seen of the epoch
  std::int64_t end_epoch = std::numeric_limits<std::int64_t>::max();  // the batches of this epoch no longer come
  int workers = 1;                                                    // threads
  int depth = 2;                                                      // batches prepared ahead, at most
};

class Loader {
 public:
  /// Starts the workers. Batches take memory of Purpose::data: (depth + 1) of them while the caller keeps one.
  Loader(std::shared_ptr<const Dataset> dataset, const TransformOptions& transform, const LoaderOptions& options);
  /// Stops the workers; waits for the images in their hands, not for their batches.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  std::int64_t steps_per_epoch() const;

  /// The next batch; nothing after the last epoch. An error met while preparing it is thrown here. The batch is the
  /// caller's alone. For one thread.
  std::optional<Batch> next();

 private:
  class Workers;
  std::unique_ptr<Workers> workers_;
};

}  // namespace lacuna
