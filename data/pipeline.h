// Data sets from data sets: take, shuffle, transform; and batches of them, which a Loader prefetches.
//
//   auto images = std::shared_ptr<const Dataset>(open_dataset("cifar10", {.path = folder}));
//   const auto [early, late] = split_at_f32(image_transforms(images->info(), {}), images->info().fields);
//   Loader loader(Batches(shuffle(transform(images, early, 1), 1), {.size = 128, .late = late}));
#pragma once

#include "data/collate.h"
#include "data/dataset.h"
#include "data/mix.h"
#include "data/transforms.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

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
/// The treatment of a sample whose file is a DamagedSample.
enum class OnDamage : std::uint8_t {
  fail,
  replace,   // by another sample of its class: a function of (seed, epoch, sample, copy)
  leave_out  // the batch has a sample less
};
/// The samples after `transforms`, whose draws are a function of (seed, epoch, the sample's number in the data set that
/// it was first read from, which of its copies it is). A sample that takes the place of a damaged one has its draws; it
/// is an error if no other one of the class can be decoded.
DatasetPtr transform(DatasetPtr source, Transforms transforms, std::uint64_t seed, OnDamage on_damage = OnDamage::fail);

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
  Transforms late{};  // of the samples of a batch when it is taken: what makes them larger, as normalisation
  std::vector<float>
      pixels{};  // instead: images stay u8, and the model's device scales them by this (Normalize::table)
};

/// Memory of a batch until it is taken.
struct BatchMemory {
  struct Row {
    std::optional<SampleRandom> random{};  // for the late transforms
    std::optional<DamagedFile> damaged{};
  };
  NamedTensors
      tensors{};  // [size, ...] of each field of the data set, of Purpose::data; none where one varies in length
  std::vector<Row> rows{};  // [size]
  Batch collated{};         // of samples whose lengths vary
};

/// `image_scale` [samples, 2, C] of a batch: `table` [2 C] for each image.
Tensor image_scale(std::span<const float> table, std::int64_t samples);

/// The batches of a data set, by their place in an epoch's order.
class Batches {
 public:
  /// A size below 1, one that the ranks do not divide, and one that leaves no batch at all are the input's fault.
  Batches(DatasetPtr source, const BatchOptions& options);

  /// Describes the samples.
  const DatasetInfo& info() const { return info_; }
  std::int64_t size() const { return options_.size; }
  /// Samples of an epoch's order: those of the data set.
  std::int64_t samples() const { return source_->size(); }
  /// Batches of an epoch from its sample `first` on.
  std::int64_t count(std::int64_t first = 0) const;

  /// Whether all samples have one shape.
  bool is_fixed() const;
  BatchMemory allocate() const;
  /// Whether `memory` may be filled again once its batch is finished; otherwise its tensors are those of the batch.
  bool reuses_memory() const { return !options_.late.empty(); }
  /// Reads and finishes the batch that begins at sample `first` of `epoch`. `sample` is scratch memory that is reused
  /// from batch to batch. The batch is empty where `stop` was requested meanwhile.
  Batch read(std::int64_t epoch, std::int64_t first, BatchMemory memory, Sample& sample,
             const std::stop_token& stop = {}) const;

  /// The same in steps. Several threads, with a `sample` of its own each, fill parts 0 to `parts` - 1 of the memory;
  /// one alone where samples vary in length.
  void fill(std::int64_t epoch, std::int64_t first, BatchMemory& memory, int part, int parts, Sample& sample,
            const std::stop_token& stop = {}) const;
  /// The batch from filled memory, with late transforms and mixing. It has no tensors where all samples are left out.
  Batch finish(std::int64_t epoch, std::int64_t first, BatchMemory& memory) const;

 private:
  struct Range {
    std::int64_t begin, end;
  };
  /// Samples of this rank in the batch that begins at sample `first`.
  Range range_of(std::int64_t first) const;
  /// Notes damaged files in `batch`, and moves the rows together where samples are left out.
  void take_damaged(BatchMemory& memory, std::int64_t samples, Batch& batch) const;
  void apply_late(const std::vector<BatchMemory::Row>& rows, Batch& batch) const;

  DatasetPtr source_;
  BatchOptions options_;
  DatasetInfo info_;
};

}  // namespace lacuna
