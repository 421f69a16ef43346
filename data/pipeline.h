// Data sets from data sets: take, shuffle, transform; and batches of them, which a Loader prefetches.
//
//   auto images = std::shared_ptr<const Dataset>(open_dataset("cifar10", {.path = folder}));
//   Loader loader(Batches(shuffle(transform(images, image_transforms(images->info(), {}), 1), 1), {.size = 128}));
#pragma once

#include "data/collate.h"
#include "data/dataset.h"
#include "data/mix.h"
#include "data/transforms.h"

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string_view>

namespace lacuna {

using DatasetPtr = std::shared_ptr<const Dataset>;

/// The first `count` samples. An error where there are fewer.
DatasetPtr take(DatasetPtr source, std::int64_t count);
/// The samples in another random order in every epoch: a function of (seed, epoch).
DatasetPtr shuffle(DatasetPtr source, std::uint64_t seed);
/// The same with samples of similar length together: the random order is cut into pieces of up to 50 batches of `batch`
/// samples (a quarter of all at most), each sorted from the longest sample to the shortest, and the longest of all
/// comes first (Hugging Face's group_by_length).
DatasetPtr shuffle_by_length(DatasetPtr source, std::uint64_t seed, std::int64_t batch);
/// Each sample `times` times in a row, and of 256 samples or more only as many in an epoch as there are, down to a
/// multiple of 256: repeated augmentation (Hoffer et al. 2020) by the rule of timm's RepeatAugSampler.
DatasetPtr repeat(DatasetPtr source, std::int64_t times);
/// The samples after `transforms`, whose draws are a function of (seed, epoch, the sample's number in the data set that
/// it was first read from, which of its copies it is).
DatasetPtr transform(DatasetPtr source, Transforms transforms, std::uint64_t seed);

/// The field that `with_draws` adds.
inline constexpr std::string_view sample_draw = "draw";
/// The samples with `draw` i64 [], a random number below 2^31: a function of (seed, epoch, the sample's number in the
/// data set that it was first read from), from which a task draws for the sample.
DatasetPtr with_draws(DatasetPtr source, std::uint64_t seed);

struct BatchOptions {
  std::int64_t size = 128;                 // samples, over all ranks together
  bool drop_last = false;                  // leave out a last batch that is not full
  int rank = 0, ranks = 1;                 // this process reads part `rank` of `ranks` equal parts of each batch
  std::shared_ptr<const Mixing> mixing{};  // of the samples of a batch (of this process); null: none
};

/// The batches of a data set, by their place in an epoch's order.
class Batches {
 public:
  /// A size below 1, one that the ranks do not divide, and one that leaves no batch at all are the input's fault.
  Batches(DatasetPtr source, const BatchOptions& options);

  const DatasetInfo& info() const { return source_->info(); }
  std::int64_t size() const { return options_.size; }
  /// Samples of an epoch's order: those of the data set.
  std::int64_t samples() const { return source_->size(); }
  /// Batches of an epoch from its sample `first` on.
  std::int64_t count(std::int64_t first = 0) const;

  /// Memory for a batch: tensors of Purpose::data; empty where a field varies in length.
  NamedTensors allocate() const;
  /// Reads the batch that begins at sample `first` of `epoch`. Its tensors are parts of `memory`, or new where that is
  /// empty. `sample` is scratch memory that is reused from batch to batch. The batch is empty where `stop` was
  /// requested meanwhile.
  Batch read(std::int64_t epoch, std::int64_t first, const NamedTensors& memory, Sample& sample,
             const std::stop_token& stop = {}) const;
  /// The same by several threads, where memory is not empty: each fills part `part` of `parts`, with a `sample` of its
  /// own, and one finishes the batch then.
  void fill(std::int64_t epoch, std::int64_t first, const NamedTensors& memory, int part, int parts, Sample& sample,
            const std::stop_token& stop = {}) const;
  Batch finish(std::int64_t epoch, std::int64_t first, const NamedTensors& memory) const;

 private:
  struct Range {
    std::int64_t begin, end;
  };
  /// Samples of this rank in the batch that begins at sample `first`.
  Range range_of(std::int64_t first) const;
  Batch finish(std::int64_t epoch, std::int64_t first, Batch batch) const;

  DatasetPtr source_;
  BatchOptions options_;
};

}  // namespace lacuna
