#include "data/loader.h"

#include "core/error.h"
#include "core/openmp.h"

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
  Workers(Batches batches, const LoaderOptions& options);

  const Batches& batches() const { return batches_; }
  std::optional<Batch> next();

 private:
  struct Position {
    std::int64_t epoch, first;
  };
  struct Prepared {
    bool ready = false;
    Batch batch;
    std::exception_ptr error;
  };

  static LoaderOptions checked(const LoaderOptions& options, const Batches& batches);
  /// Position of batch number `ticket`.
  Position position_of(std::int64_t ticket) const;
  Prepared& prepared(std::int64_t ticket) { return ring_[static_cast<std::size_t>(ticket % options_.depth)]; }
  void run(const std::stop_token& stop);

  const Batches batches_;
  const LoaderOptions options_;
  const std::int64_t steps_;        // batches of a whole epoch
  const std::int64_t first_steps_;  // batches left of the first epoch

  std::mutex mutex_;  // guards the members below
  std::condition_variable_any may_prepare_, is_ready_;
  std::vector<Prepared> ring_;          // [depth]: batch `ticket` waits at ticket mod depth
  std::vector<NamedTensors> free_;      // memory; with that in the ring and in workers' hands [depth]
  std::int64_t taken_ = 0, given_ = 0;  // tickets: batches begun by workers, and handed out
  std::exception_ptr error_;

  std::vector<std::jthread> threads_;  // last: they stop before the members that they use are destroyed
};

LoaderOptions Loader::Workers::checked(const LoaderOptions& options, const Batches& batches) {
  expect(options.workers > 0 && options.depth > 0, "a loader needs workers and a depth; got {} and {}", options.workers,
         options.depth);
  expect(options.first_epoch >= 0 && options.first_sample >= 0 && options.first_sample <= batches.samples(),
         "a loader cannot begin at epoch {}, sample {} of {}", options.first_epoch, options.first_sample,
         batches.samples());
  return options;
}

Loader::Workers::Workers(Batches batches, const LoaderOptions& options)
    : batches_(std::move(batches)),
      options_(checked(options, batches_)),
      steps_(batches_.count()),
      first_steps_(batches_.count(options.first_sample)),
      ring_(static_cast<std::size_t>(options.depth)) {
  for (int i = 0; i < options_.depth; ++i) free_.push_back(batches_.allocate());
  try {
    for (int i = 0; i < options_.workers; ++i)
      threads_.emplace_back([this](const std::stop_token& stop) {
        leave_place();
        run(stop);
      });
  } catch (const std::system_error& error) {
    fail(
        "cannot start {} threads that prepare batches (data.workers): {}: a limit on processes (ulimit -u) or on the "
        "address space (ulimit -v) is too low",
        options_.workers, error.code().message());
  }
}

Loader::Workers::Position Loader::Workers::position_of(std::int64_t ticket) const {
  if (ticket < first_steps_) return {options_.first_epoch, options_.first_sample + ticket * batches_.size()};
  const std::int64_t step = ticket - first_steps_;
  return {options_.first_epoch + 1 + step / steps_, step % steps_ * batches_.size()};
}

std::optional<Batch> Loader::Workers::next() {
  std::unique_lock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  if (position_of(given_).epoch >= options_.end_epoch) return std::nullopt;
  NamedTensors fresh = batches_.allocate();  // an error here leaves everything as it is
  Prepared& mine = prepared(given_);
  is_ready_.wait(lock, [&] { return mine.ready; });
  mine.ready = false;
  if (mine.error) {
    error_ = mine.error;
    std::rethrow_exception(error_);
  }
  ++given_;
  Batch batch = std::exchange(mine.batch, {});
  for (const auto& [name, tensor] : batch) tensor.storage()->assign({Purpose::data, Label("batch"), {}});
  free_.push_back(std::move(fresh));
  lock.unlock();
  may_prepare_.notify_one();
  return batch;
}

void Loader::Workers::run(const std::stop_token& stop) {
  Sample sample;
  std::unique_lock lock(mutex_);
  const auto has_work = [&] {
    return taken_ < given_ + options_.depth && position_of(taken_).epoch < options_.end_epoch;
  };
  while (may_prepare_.wait(lock, stop, has_work) && !stop.stop_requested()) {
    const std::int64_t ticket = taken_++;
    NamedTensors memory = std::move(free_.back());
    free_.pop_back();
    lock.unlock();
    Batch batch;
    std::exception_ptr error;
    try {
      const auto [epoch, first] = position_of(ticket);
      batch = batches_.read(epoch, first, memory, sample, stop);
    } catch (...) {
      error = std::current_exception();
    }
    memory.clear();
    lock.lock();
    prepared(ticket) = {true, std::move(batch), error};
    is_ready_.notify_one();
  }
}

Loader::Loader(Batches batches, const LoaderOptions& options)
    : workers_(std::make_unique<Workers>(std::move(batches), options)) {}

Loader::~Loader() = default;

const Batches& Loader::batches() const { return workers_->batches(); }

std::optional<Batch> Loader::next() { return workers_->next(); }

}  // namespace lacuna
