// Data sets made from data sets (take, shuffle, transform), and their batches, which a Loader prefetches.
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

/// The first `count` samples. Throws if there are fewer.
DatasetPtr take(DatasetPtr source, std::int64_t count);
/// Shuffles the samples anew in every epoch; the order is a function of (seed, epoch).
DatasetPtr shuffle(DatasetPtr source, std::uint64_t seed);
/// Shuffles so that samples of similar length share a batch (Hugging Face's group_by_length): the random order is cut
/// into chunks of up to 50 batches of `batch` samples (at most a quarter of all), each chunk is sorted by descending
/// length, and the longest sample of all comes first.
DatasetPtr shuffle_by_length(DatasetPtr source, std::uint64_t seed, std::int64_t batch);
/// Repeats each sample `times` times in a row: repeated augmentation (Hoffer et al. 2020) as in timm's
/// RepeatAugSampler. With 256 samples or more, an epoch still has only as many as the source, rounded down to a
/// multiple of 256.
DatasetPtr repeat(DatasetPtr source, std::int64_t times);
/// The treatment of a sample whose file is a DamagedSample.
enum class OnDamage : std::uint8_t {
  fail,
  replace,   // with another sample of its class, a function of (seed, epoch, sample, copy)
  leave_out  // the batch has one sample fewer
};
/// Applies `transforms` to each sample. Their draws are a function of (seed, epoch, index in the original data set,
/// copy). A sample that replaces a damaged one gets the damaged one's draws. Throws if no other sample of the class can
/// be decoded.
DatasetPtr transform(DatasetPtr source, Transforms transforms, std::uint64_t seed, OnDamage on_damage = OnDamage::fail);

/// The field that `with_draws` adds.
inline constexpr std::string_view sample_draw = "draw";
/// Adds `draw` i64 [] to each sample: a random number below 2^31, a function of (seed, epoch, index in the original
/// data set). Tasks use it to seed their own per-sample draws.
DatasetPtr with_draws(DatasetPtr source, std::uint64_t seed);

struct BatchOptions {
  std::int64_t size = 128;                 // samples, summed over all ranks
  bool drop_last = false;                  // drop an incomplete last batch
  int rank = 0, ranks = 1;                 // each process reads its own equal part of every batch
  std::shared_ptr<const Mixing> mixing{};  // mixes the samples of this process's batch; null: no mixing
  Transforms late{};            // transforms that enlarge samples (normalisation), run when the batch is taken
  std::vector<float> pixels{};  // alternative to normalising here: images stay u8, and the model's device scales them
                                // by this (Normalize::table)
};

/// The memory of a prefetched batch.
struct BatchMemory {
  struct Row {
    std::optional<SampleRandom> random{};  // for the late transforms
    std::optional<DamagedFile> damaged{};
  };
  NamedTensors tensors{};   // [size, ...] per field, of Purpose::data; empty if a field varies in length
  std::vector<Row> rows{};  // [size]
  Batch collated{};         // the batch, if sample lengths vary
};

/// `image_scale` [samples, 2, C] of a batch: `table` [2 C] repeated for each image.
Tensor image_scale(std::span<const float> table, std::int64_t samples);
/// Gives a batch of images u8 its `image_scale`.
void set_image_scale(std::span<const float> table, Batch& batch);

/// The batches of a data set, addressed by their position in an epoch's order.
class Batches {
 public:
  /// The input is at fault if the size is below 1, not a multiple of `ranks`, or so large that no batch is left.
  Batches(DatasetPtr source, const BatchOptions& options);

  /// Describes the samples.
  const DatasetInfo& info() const { return info_; }
  std::int64_t size() const { return options_.size; }
  /// Number of samples in an epoch.
  std::int64_t samples() const { return source_->size(); }
  /// Number of batches in an epoch from sample `first` on.
  std::int64_t count(std::int64_t first = 0) const;

  /// Whether all samples have the same shape.
  bool is_fixed() const;
  BatchMemory allocate() const;
  /// Whether a BatchMemory can be refilled once its batch is finished. If not, the batch took over its tensors.
  bool reuses_memory() const { return !options_.late.empty(); }
  /// Reads and finishes the batch that begins at sample `first` of `epoch`. `sample` is scratch memory, reusable for
  /// the next batch. The batch is empty if `stop` is requested meanwhile.
  Batch read(std::int64_t epoch, std::int64_t first, BatchMemory memory, Sample& sample,
             const std::stop_token& stop = {}) const;

  /// The first half of `read`. Several threads, each with its own `sample`, fill parts 0 to `parts` - 1 of the memory;
  /// if sample lengths vary, a single thread fills all of it.
  void fill(std::int64_t epoch, std::int64_t first, BatchMemory& memory, int part, int parts, Sample& sample,
            const std::stop_token& stop = {}) const;
  /// The second half of `read`: applies late transforms and mixing to filled memory. The batch has no tensors if all
  /// samples are dropped.
  Batch finish(std::int64_t epoch, std::int64_t first, BatchMemory& memory) const;

 private:
  struct Range {
    std::int64_t begin, end;
  };
  /// Samples of this rank in the batch that begins at sample `first`.
  Range range_of(std::int64_t first) const;
  /// Records damaged files in `batch`, and compacts the rows if samples are dropped.
  void take_damaged(BatchMemory& memory, std::int64_t samples, Batch& batch) const;
  void apply_late(const std::vector<BatchMemory::Row>& rows, Batch& batch) const;

  DatasetPtr source_;
  BatchOptions options_;
  DatasetInfo info_;
};

}  // namespace lacuna
