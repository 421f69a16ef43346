#include "data/loader.h"

#include "core/error.h"
#include "data/permutation.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace lacuna {

class Loader::Workers {
 public:
  Workers(std::shared_ptr<const Dataset> dataset, const TransformOptions& transform, const LoaderOptions& options);

  std::int64_t steps_per_epoch() const { return steps_; }
  std::optional<Batch> next();

 private:
  struct Memory {
    Tensor images;   // f32 [batch_size, height, width, channels]
    Tensor targets;  // i64 [batch_size]
  };
  struct Place {  // where a batch stands in the order
    std::int64_t epoch, first;
  };
  struct SavedTensor {
    bool ready = false;
    Memory memory;
    std::exception_ptr error;
  };

  std::int64_t steps_for(std::int64_t images) const;
  std::int64_t count_steps() const;
  Place place_of(std::int64_t ticket) const;
  std::int64_t images_from(std::int64_t first) const;
  SavedTensor& slot_of(std::int64_t ticket) { return ring_[static_cast<std::size_t>(ticket % options_.depth)]; }
  Memory allocate();
  void run(const std::stop_token& stop);
  void prepare(const Place& place, const Memory& memory, ImageBuffer& image, const std::stop_token& stop) const;

  const std::shared_ptr<const Dataset> dataset_;
  const Transform transform_;
  const LoaderOptions options_;
  const std::int64_t steps_;        // of a whole epoch
  const std::int64_t first_steps_;  // of what the first one has left

  std::mutex mutex_;  // guards what follows
  std::condition_variable_any may_prepare_, is_ready_;
  std::vector<SavedTensor> ring_;       // [depth]: batch `ticket` waits at ticket mod depth
  std::vector<Memory> free_;            // with those in the ring and in workers' hands [depth]
  std::int64_t taken_ = 0, given_ = 0;  // tickets: batches begun by workers, and handed out
  std::exception_ptr error_;

  std::vector<std::jthread> threads_;  // last: they stop before anything they use goes
};

Loader::Workers::Workers(std::shared_ptr<const Dataset> dataset, const TransformOptions& transform,
                         const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      transform_(dataset_->info(), transform),
      options_(options),
      steps_(count_steps()),
      first_steps_(steps_for(dataset_->size() - options.first_image)),
      ring_(static_cast<std::size_t>(options.depth)) {
  for (int i = 0; i < options_.depth; ++i) free_.push_back(allocate());
  try {
    for (int i = 0; i < options_.workers; ++i)
      threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error& error) {
    fail(
        "cannot start {} threads that prepare batches (data.workers): {}: a limit on processes (ulimit -u) or on the "
        "address space (ulimit -v) is too low",
        options_.workers, error.code().message());
  }
}

std::int64_t Loader::Workers::steps_for(std::int64_t images) const {
  return (images + (options_.drop_last ? 0 : options_.batch_size - 1)) / options_.batch_size;
}

std::int64_t Loader::Workers::count_steps() const {
  const LoaderOptions& o = options_;
  if (o.batch_size < 1) reject("train.batch_size: expected 1 or more, got {}", o.batch_size);
  expect(o.workers > 0 && o.depth > 0, "a loader needs workers and a depth; got {} and {}", o.workers, o.depth);
  expect(o.first_epoch >= 0 && o.first_image >= 0 && o.first_image <= dataset_->size(),
         "a loader cannot begin at epoch {}, image {} of {}", o.first_epoch, o.first_image, dataset_->size());
  const std::int64_t steps = steps_for(dataset_->size());
  if (steps == 0)
    reject("train.batch_size: {} is more than the {} images of {}", o.batch_size, dataset_->size(),
           dataset_->info().name);
  return steps;
}

Loader::Workers::Place Loader::Workers::place_of(std::int64_t ticket) const {
  if (ticket < first_steps_) return {options_.first_epoch, options_.first_image + ticket * options_.batch_size};
  const std::int64_t step = ticket - first_steps_;
  return {options_.first_epoch + 1 + step / steps_, step % steps_ * options_.batch_size};
}

std::int64_t Loader::Workers::images_from(std::int64_t first) const {
  return std::min(options_.batch_size, dataset_->size() - first);
}

Loader::Workers::Memory Loader::Workers::allocate() {
  const AllocationScope scope({Purpose::data, Label("loader"), {}});
  const std::int64_t n = options_.batch_size;
  return {Tensor::empty({n, transform_.height(), transform_.width(), transform_.channels()}, DType::f32, Device::cpu,
                        Purpose::data),
          Tensor::empty({n}, DType::i64, Device::cpu, Purpose::data)};
}

std::optional<Batch> Loader::Workers::next() {
  std::unique_lock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  const Place place = place_of(given_);
  if (place.epoch >= options_.end_epoch) return std::nullopt;
  Memory fresh = allocate();  // an error here leaves everything as it is
  SavedTensor& slot = slot_of(given_);
  is_ready_.wait(lock, [&] { return slot.ready; });
  slot.ready = false;
  if (slot.error) {
    error_ = slot.error;
    std::rethrow_exception(error_);
  }
  ++given_;
  const Memory memory = std::exchange(slot.memory, {});
  const std::int64_t count = images_from(place.first);
  Batch batch{memory.images.leading(0, count), memory.targets.leading(0, count), place.epoch, place.first};
  free_.push_back(std::move(fresh));
  lock.unlock();
  may_prepare_.notify_one();
  return batch;
}

void Loader::Workers::run(const std::stop_token& stop) {
  ImageBuffer image;
  std::unique_lock lock(mutex_);
  const auto has_work = [&] { return taken_ < given_ + options_.depth && place_of(taken_).epoch < options_.end_epoch; };
  while (may_prepare_.wait(lock, stop, has_work) && !stop.stop_requested()) {
    const std::int64_t ticket = taken_++;
    Memory memory = std::move(free_.back());
    free_.pop_back();
    lock.unlock();
    std::exception_ptr error;
    try {
      prepare(place_of(ticket), memory, image, stop);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    slot_of(ticket) = {true, std::move(memory), error};
    is_ready_.notify_one();
  }
}

void Loader::Workers::prepare(const Place& place, const Memory& memory, ImageBuffer& image,
                              const std::stop_token& stop) const {
  const DatasetInfo& info = dataset_->info();
  const Permutation order(dataset_->size(),
                          {options_.seed, static_cast<std::uint32_t>(place.epoch), random_site("data/order")});
  const std::int64_t count = images_from(place.first);
  const std::int64_t image_count = transform_.height() * transform_.width() * transform_.channels();
  for (std::int64_t i = 0; i < count && !stop.stop_requested(); ++i) {
    const std::int64_t index = options_.shuffle ? order(place.first + i) : place.first + i;
    image.set_size(info.height, info.width, info.channels);
    memory.targets.data<std::int64_t>()[i] = dataset_->read(index, image.pixels.data());
    transform_(image, {options_.seed, place.epoch, index}, memory.images.data<float>() + i * image_count);
  }
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const TransformOptions& transform, const LoaderOptions& options)
    : workers_(std::make_unique<Workers>(std::move(dataset), transform, options)) {}

Loader::~Loader() = default;

std::int64_t Loader::steps_per_epoch() const { return workers_->steps_per_epoch(); }

std::optional<Batch> Loader::next() { return workers_->next(); }

}  // namespace lacuna
