#include "data/pipeline.h"

#include "core/error.h"
#include "core/parallel.h"
#include "data/permutation.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

namespace lacuna {
namespace {

DatasetInfo with_size(DatasetInfo info, std::int64_t size) {
  info.size = size;
  return info;
}

class Taken final : public Dataset {
 public:
  Taken(DatasetPtr source, std::int64_t count) : Dataset(with_size(source->info(), count)), source_(std::move(source)) {
    expect(0 <= count && count <= source_->size(), "{} samples of {} were asked for, it has {}", count, info().name,
           source_->size());
  }

  std::int64_t length(std::int64_t index) const override { return source_->length(index); }
  std::int64_t label(std::int64_t index) const override { return source_->label(index); }

 private:
  void read_sample(std::int64_t index, Sample& sample) const override { source_->read(index, sample); }
  DatasetPtr source_;
};

class Shuffled final : public Dataset {
 public:
  Shuffled(DatasetPtr source, std::uint64_t seed) : Dataset(source->info()), source_(std::move(source)), seed_(seed) {}

 private:
  void read_sample(std::int64_t index, Sample& sample) const override {
    const Permutation order(size(), {seed_, static_cast<std::uint32_t>(sample.epoch), random_site("data/order")});
    source_->read(order(index), sample);
  }
  DatasetPtr source_;
  std::uint64_t seed_;
};

class ShuffledByLength final : public Dataset {
 public:
  ShuffledByLength(DatasetPtr source, std::uint64_t seed, std::int64_t batch)
      : Dataset(source->info()), source_(std::move(source)), seed_(seed), lengths_(static_cast<std::size_t>(size())) {
    constexpr std::int64_t most_batches = 50, least_pieces = 4;
    piece_ = std::clamp(size() / (least_pieces * batch), std::int64_t{1}, most_batches) * batch;
    parallel_for(size(), 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        lengths_[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(source_->length(i));
    });
  }

  std::int64_t length(std::int64_t index) const override { return source_->length(index); }

 private:
  using Order = std::vector<std::int32_t>;

  void read_sample(std::int64_t index, Sample& sample) const override {
    source_->read((*order_of(sample.epoch))[static_cast<std::size_t>(index)], sample);
  }
  /// A cache for the last epochs requested, because workers read the end of one epoch and the start of the next.
  std::shared_ptr<const Order> order_of(std::int64_t epoch) const {
    const std::scoped_lock lock(mutex_);
    for (const auto& [known, order] : orders_)
      if (known == epoch) return order;
    orders_[1] = std::exchange(orders_[0], {epoch, std::make_shared<const Order>(make_order(epoch))});
    return orders_[0].second;
  }
  Order make_order(std::int64_t epoch) const {
    const Permutation random(size(), {seed_, static_cast<std::uint32_t>(epoch), random_site("data/order")});
    Order order(static_cast<std::size_t>(size()));
    for (std::int64_t i = 0; i < size(); ++i) order[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(random(i));
    const auto length = [&](std::int32_t i) { return lengths_[static_cast<std::size_t>(i)]; };
    for (std::int64_t begin = 0; begin < size(); begin += piece_)
      std::stable_sort(order.begin() + begin, order.begin() + std::min(begin + piece_, size()),
                       [&](std::int32_t a, std::int32_t b) { return length(a) > length(b); });
    std::size_t longest = 0;  // position of the longest sample among the first of each chunk
    for (auto begin = static_cast<std::size_t>(piece_); begin < order.size(); begin += static_cast<std::size_t>(piece_))
      if (length(order[begin]) > length(order[longest])) longest = begin;
    std::swap(order.front(), order[longest]);
    return order;
  }

  DatasetPtr source_;
  std::uint64_t seed_;
  std::int64_t piece_;
  std::vector<std::int32_t> lengths_;  // [size]
  mutable std::mutex mutex_;
  mutable std::pair<std::int64_t, std::shared_ptr<const Order>> orders_[2]{{-1, nullptr}, {-1, nullptr}};
};

class Repeated final : public Dataset {
 public:
  Repeated(DatasetPtr source, std::int64_t times)
      : Dataset(with_size(source->info(), epoch_size(source->size()))), source_(std::move(source)), times_(times) {}

  std::int64_t length(std::int64_t index) const override { return source_->length(index / times_); }

 private:
  static std::int64_t epoch_size(std::int64_t samples) {
    constexpr std::int64_t round = 256;  // timm's RepeatAugSampler
    return samples < round ? samples : samples / round * round;
  }
  void read_sample(std::int64_t index, Sample& sample) const override {
    sample.copy = sample.copy * times_ + index % times_;
    source_->read(index / times_, sample);
  }
  DatasetPtr source_;
  std::int64_t times_;
};

class Transformed final : public Dataset {
 public:
  Transformed(DatasetPtr source, Transforms transforms, std::uint64_t seed, OnDamage on_damage)
      : Dataset(described(source->info(), transforms)),
        source_(std::move(source)),
        transforms_(std::move(transforms)),
        seed_(seed),
        on_damage_(on_damage) {}

  std::int64_t length(std::int64_t index) const override { return source_->length(index); }
  std::int64_t label(std::int64_t index) const override { return source_->label(index); }

 private:
  static DatasetInfo described(DatasetInfo info, const Transforms& transforms) {
    info.fields = describe(transforms, std::move(info.fields));
    return info;
  }
  static std::string origin_of(const Sample& sample) {
    return sample.origin.empty() ? fmt::format("sample {}", sample.index) : sample.origin;
  }

  void read_sample(std::int64_t index, Sample& sample) const override {
    const std::int64_t copy = sample.copy;
    const std::string why = read_intact(index, {}, sample);
    if (why.empty()) return;
    DamagedFile damaged{.index = sample.index, .file = origin_of(sample), .why = why};
    const SampleRandom random(seed_, sample.epoch, sample.index, sample.copy);
    if (on_damage_ == OnDamage::fail) reject_sample("{}: {}", damaged.file, damaged.why);
    if (on_damage_ == OnDamage::replace) damaged.instead = read_another(index, copy, damaged, random, sample);
    sample.damaged = std::move(damaged);
  }

  /// Reads and transforms a sample, with the draws of another one if they are given. Returns why the sample is damaged;
  /// empty if it is intact.
  std::string read_intact(std::int64_t index, std::optional<SampleRandom> random, Sample& sample) const {
    try {
      source_->read(index, sample);
      if (!random) random.emplace(seed_, sample.epoch, sample.index, sample.copy);
      lacuna::apply(transforms_, source_->info().fields, sample, *random);
    } catch (const DamagedSample& error) {
      return error.what();
    }
    sample.random = random;
    return {};
  }

  /// Reads another sample of the same class, and returns its origin.
  std::string read_another(std::int64_t index, std::int64_t copy, const DamagedFile& damaged,
                           const SampleRandom& random, Sample& sample) const {
    const SampleField* const field = find_class(info().fields);
    const bool has_class = field != nullptr;
    const std::int64_t wanted = has_class ? source_->label(index) : 0;
    const Permutation order(size(), random.order());
    for (std::int64_t i = 0; i < size(); ++i) {
      const std::int64_t other = order(i);
      if (other == index || (has_class && source_->label(other) != wanted)) continue;
      sample.copy = copy;
      if (read_intact(other, random, sample).empty()) return origin_of(sample);
    }
    reject_sample("{}: {}, and no other file{} can be decoded in its place", damaged.file, damaged.why,
                  has_class ? " of its class" : "");
  }

  DatasetPtr source_;
  Transforms transforms_;
  std::uint64_t seed_;
  OnDamage on_damage_;
};

class WithDraws final : public Dataset {
 public:
  WithDraws(DatasetPtr source, std::uint64_t seed)
      : Dataset(described(source->info())), source_(std::move(source)), seed_(seed) {}

  std::int64_t length(std::int64_t index) const override { return source_->length(index); }
  std::int64_t label(std::int64_t index) const override { return source_->label(index); }

 private:
  static DatasetInfo described(DatasetInfo info) {
    info.fields.push_back({.name = std::string(sample_draw), .dtype = DType::i64, .shape = {}});
    return info;
  }
  void read_sample(std::int64_t index, Sample& sample) const override {
    source_->read(index, sample);
    const RandomStream stream{seed_, static_cast<std::uint32_t>(sample.epoch), random_site("data/draw")};
    Tensor draw = sample.make(sample_draw, {}, DType::i64);
    *draw.data<std::int64_t>() = stream.bits(static_cast<std::uint64_t>(sample.index)) >> 1;
    sample.set(sample_draw, std::move(draw));
  }
  DatasetPtr source_;
  std::uint64_t seed_;
};

}  // namespace

DatasetPtr take(DatasetPtr source, std::int64_t count) { return std::make_shared<Taken>(std::move(source), count); }

DatasetPtr shuffle(DatasetPtr source, std::uint64_t seed) {
  return std::make_shared<Shuffled>(std::move(source), seed);
}

DatasetPtr shuffle_by_length(DatasetPtr source, std::uint64_t seed, std::int64_t batch) {
  expect(batch > 0 && source->size() < std::numeric_limits<std::int32_t>::max(),
         "{} samples cannot be ordered by length in batches of {}", source->size(), batch);
  return std::make_shared<ShuffledByLength>(std::move(source), seed, batch);
}

DatasetPtr repeat(DatasetPtr source, std::int64_t times) {
  expect(times > 0, "samples cannot be repeated {} times", times);
  return std::make_shared<Repeated>(std::move(source), times);
}

DatasetPtr transform(DatasetPtr source, Transforms transforms, std::uint64_t seed, OnDamage on_damage) {
  return std::make_shared<Transformed>(std::move(source), std::move(transforms), seed, on_damage);
}

DatasetPtr with_draws(DatasetPtr source, std::uint64_t seed) {
  return std::make_shared<WithDraws>(std::move(source), seed);
}

namespace {

bool is_left_out(const std::optional<DamagedFile>& damaged) { return damaged && damaged->instead.empty(); }

/// Entry `i` of axis 0.
Tensor row_of(const Tensor& tensor, std::int64_t i) {
  const Shape& shape = tensor.shape();
  return tensor.leading(i, i + 1).reshape(Shape(std::vector<std::int64_t>(shape.begin() + 1, shape.end())));
}

}  // namespace

Batches::Batches(DatasetPtr source, const BatchOptions& options)
    : source_(std::move(source)), options_(options), info_(source_->info()) {
  const std::int64_t size = options_.size;
  const int rank = options_.rank, ranks = options_.ranks;
  const bool mixes = options_.mixing != nullptr;
  info_.fields = describe(options_.late, std::move(info_.fields));
  expect(options_.pixels.empty() || options_.late.empty(),
         "images are normalised by `late` or by `pixels`, not by both");
  if (mixes) {
    SampleFields mixed = info_.fields;
    for (SampleField& field : mixed)
      if (!options_.pixels.empty() && field.kind == FieldKind::pixels)
        field.dtype = DType::f32;  // after normalisation on the device
    options_.mixing->describe(std::move(mixed));
  }
  if (size < 1) reject("train.batch_size: expected 1 or more, got {}", size);
  expect(ranks > 0 && 0 <= rank && rank < ranks, "expected a rank from 0 to {}, got {}", ranks - 1, rank);
  if (mixes && size / ranks % (2 * options_.mixing->parts()) != 0)
    reject(
        "train.batch_size: mixup and cutmix pair the samples of a micro-batch: expected an even number in each of {}, "
        "got "
        "{} samples for all",
        ranks * options_.mixing->parts(), size);
  if (size % ranks != 0) reject("train.batch_size: {} samples cannot be shared equally by {} ranks", size, ranks);
  if (count() == 0)
    reject("train.batch_size: {} is more than the {} samples of {}", size, source_->size(), info().name);
}

std::int64_t Batches::count(std::int64_t first) const {
  return (samples() - first + (options_.drop_last ? 0 : size() - 1)) / size();
}

bool Batches::is_fixed() const {
  return std::ranges::all_of(source_->info().fields,
                             [](const SampleField& field) { return field.collation == Collation::stacked; });
}

BatchMemory Batches::allocate() const {
  const AllocationScope scope({Purpose::data, Label("loader"), {}});
  BatchMemory memory;
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(size() / options_.ranks));
  memory.rows.resize(lengths.size());
  if (!is_fixed()) return memory;
  for (const SampleField& field : source_->info().fields) memory.tensors.set(field.name, batch_memory(field, lengths));
  return memory;
}

Batches::Range Batches::range_of(std::int64_t first) const {
  const std::int64_t part = size() / options_.ranks, end = std::min(first + size(), samples());
  return {.begin = std::min(first + part * options_.rank, end),
          .end = std::min(first + part * (options_.rank + 1), end)};
}

void Batches::fill(std::int64_t epoch, std::int64_t first, BatchMemory& memory, int part, int parts, Sample& sample,
                   const std::stop_token& stop) const {
  const auto [begin, end] = range_of(first);
  const SampleFields& fields = source_->info().fields;
  const auto note = [&](std::int64_t i, const Sample& read) {
    memory.rows[static_cast<std::size_t>(i)] = {.random = read.random, .damaged = read.damaged};
    return !is_left_out(read.damaged);
  };
  if (!is_fixed()) {
    std::vector<Sample> all;  // all samples, since collating needs their lengths
    for (std::int64_t i = 0; i < end - begin && !stop.stop_requested(); ++i) {
      all.emplace_back().begin(epoch);
      source_->read(begin + i, all.back());
      if (!note(i, all.back())) all.pop_back();
    }
    const AllocationScope scope({Purpose::data, Label("loader"), {}});
    if (!stop.stop_requested() && !all.empty()) memory.collated = collate(all, fields);
    return;
  }
  NamedTensors places;
  const std::int64_t last = (end - begin) * (part + 1) / parts;
  for (std::int64_t i = (end - begin) * part / parts; i < last && !stop.stop_requested(); ++i) {
    for (const SampleField& field : fields) places.set(field.name, row_of(memory.tensors[field.name], i));
    sample.begin(epoch, places);
    source_->read(begin + i, sample);
    if (!note(i, sample)) continue;
    for (const SampleField& field : fields) copy_to_batch(sample, field, places[field.name]);
  }
  sample.begin(epoch);  // drops references to the batch's memory, which the caller owns
}

void Batches::take_damaged(BatchMemory& memory, std::int64_t samples, Batch& batch) const {
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    BatchMemory::Row& row = memory.rows[static_cast<std::size_t>(i)];
    const bool left_out = is_left_out(row.damaged);
    if (row.damaged) batch.damaged.push_back(*std::exchange(row.damaged, {}));
    if (left_out) continue;
    if (kept < i) {
      memory.rows[static_cast<std::size_t>(kept)].random = row.random;
      for (const auto& [name, tensor] : memory.tensors) {
        const Tensor from = row_of(tensor, i);
        std::memcpy(row_of(tensor, kept).raw(), from.data<const std::byte>(), static_cast<std::size_t>(from.bytes()));
      }
    }
    ++kept;
  }
  batch.samples = kept;
}

void Batches::apply_late(const std::vector<BatchMemory::Row>& rows, Batch& batch) const {
  const AllocationScope scope({Purpose::data, Label("loader"), {}});
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(batch.samples));
  const std::string& image = find_images(info_.fields)->name;
  const Tensor before = batch[image], after = batch_memory(field_of(info_.fields, image), lengths);
  parallel_for(batch.samples, 2, [&](std::int64_t begin, std::int64_t end) {
    Sample sample;
    NamedTensors places;
    for (std::int64_t i = begin; i < end; ++i) {
      places.set(image, row_of(after, i));
      sample.begin(batch.epoch, places);
      sample.set(image, row_of(before, i));
      std::optional<SampleRandom> random = rows[static_cast<std::size_t>(i)].random;
      expect(random.has_value(), "late transforms need the samples of a `transform`, whose draws they go on with");
      SampleImage pixels(sample, image);
      for (const auto& transform : options_.late)
        expect(transform->apply(pixels, *random).empty(), "late transforms cannot move pixels: masks would not follow");
      copy_to_batch(sample, field_of(info_.fields, image), places[image]);
    }
  });
  batch.set(image, after);
  if (is_fixed())  // the memory of the other fields is refilled
    for (const auto& [name, tensor] : Batch(batch))
      if (name != image) batch.set(name, tensor.clone(Purpose::data));
}

Tensor image_scale(std::span<const float> table, std::int64_t samples) {
  const AllocationScope scope({Purpose::data, Label("loader"), {}});
  const std::int64_t channels = std::ssize(table) / 2;
  Tensor scale = Tensor::empty({samples, 2, channels}, DType::f32, Device::cpu, Purpose::data);
  for (std::int64_t i = 0; i < samples; ++i) std::ranges::copy(table, scale.data<float>() + i * 2 * channels);
  return scale;
}

void set_image_scale(std::span<const float> table, Batch& batch) {
  batch.set("image_scale", image_scale(table, batch.samples));
}

Batch Batches::finish(std::int64_t epoch, std::int64_t first, BatchMemory& memory) const {
  const auto [begin, end] = range_of(first);
  Batch batch = std::exchange(memory.collated, {});
  batch.epoch = epoch;
  batch.first = begin;
  take_damaged(memory, end - begin, batch);
  if (batch.samples == 0) return batch;
  for (const auto& [name, tensor] : memory.tensors) batch.set(name, tensor.leading(0, batch.samples));
  if (!options_.late.empty()) apply_late(memory.rows, batch);
  if (!options_.pixels.empty()) set_image_scale(options_.pixels, batch);
  if (options_.mixing) options_.mixing->apply(batch, info_.fields);
  return batch;
}

Batch Batches::read(std::int64_t epoch, std::int64_t first, BatchMemory memory, Sample& sample,
                    const std::stop_token& stop) const {
  fill(epoch, first, memory, 0, 1, sample, stop);
  return stop.stop_requested() ? Batch() : finish(epoch, first, memory);
}

}  // namespace lacuna
