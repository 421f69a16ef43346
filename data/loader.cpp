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
    BatchMemory memory;
    int parts_done = 0;
    int failed_part = 0;
    std::exception_ptr error;  // error of the first part that failed
  };

  static LoaderOptions checked(const LoaderOptions& options, const Batches& batches);
  /// Epoch and first sample of batch `ticket`.
  Position position_of(std::int64_t ticket) const;
  Prepared& prepared(std::int64_t ticket) { return ring_[static_cast<std::size_t>(ticket % options_.depth)]; }
  /// Number of threads that prepare a batch together. If sample lengths vary, it is one, since collating needs all
  /// samples.
  int parts() const { return batches_.is_fixed() ? options_.workers : 1; }
  void run(const std::stop_token& stop);

  const Batches batches_;
  const LoaderOptions options_;
  const std::int64_t steps_;        // batches per full epoch
  const std::int64_t first_steps_;  // batches left in the first epoch

  std::mutex mutex_;  // guards the members below
  std::condition_variable_any may_prepare_, is_ready_;
  std::vector<Prepared> ring_;          // [depth]: slot of batch `ticket` is ticket mod depth
  std::vector<BatchMemory> free_;       // [depth], together with the memory in the ring
  std::int64_t taken_ = 0, given_ = 0;  // tickets: batch whose parts are being assigned; next batch to hand out
  int parts_taken_ = 0;                 // parts of batch `taken_` that workers have started
  std::exception_ptr error_;

  std::vector<std::jthread> threads_;  // last member: threads stop before the members they use are destroyed
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
  Prepared& mine = prepared(given_);
  is_ready_.wait(lock, [&] { return mine.ready; });
  if (mine.error) {
    error_ = mine.error;
    std::rethrow_exception(error_);
  }
  lock.unlock();  // workers do not touch a ready batch
  BatchMemory fresh;
  if (!batches_.reuses_memory()) fresh = batches_.allocate();  // may throw, so it precedes any change of state
  const auto [epoch, first] = position_of(given_);
  Batch batch;
  try {
    batch = batches_.finish(epoch, first, mine.memory);
  } catch (...) {
    error_ = std::current_exception();
    throw;
  }
  for (const auto& [name, tensor] : batch) tensor.storage()->assign({Purpose::data, Label("batch"), {}});
  if (batches_.reuses_memory()) fresh = std::move(mine.memory);
  mine.memory = {};
  lock.lock();
  mine.ready = false;
  ++given_;
  free_.push_back(std::move(fresh));
  lock.unlock();
  may_prepare_.notify_all();
  return batch;
}

void Loader::Workers::run(const std::stop_token& stop) {
  Sample sample;
  std::unique_lock lock(mutex_);
  const auto has_work = [&] {
    return taken_ < given_ + options_.depth && position_of(taken_).epoch < options_.end_epoch;
  };
  while (may_prepare_.wait(lock, stop, has_work) && !stop.stop_requested()) {
    const std::int64_t ticket = taken_;
    const int part = parts_taken_++;
    Prepared& shared = prepared(ticket);
    if (part == 0) {
      shared.memory = std::move(free_.back());
      free_.pop_back();
    }
    if (parts_taken_ == parts()) {
      ++taken_;
      parts_taken_ = 0;
    }
    lock.unlock();
    const auto [epoch, first] = position_of(ticket);
    std::exception_ptr error;
    try {
      batches_.fill(epoch, first, shared.memory, part, parts(), sample, stop);
    } catch (...) {
      error = std::current_exception();
      sample.begin(epoch);
    }
    lock.lock();
    if (error && (!shared.error || part < shared.failed_part)) {
      shared.error = error;
      shared.failed_part = part;
    }
    if (++shared.parts_done < parts()) continue;
    shared.parts_done = 0;
    shared.ready = true;
    is_ready_.notify_one();
  }
}

Loader::Loader(Batches batches, const LoaderOptions& options)
    : workers_(std::make_unique<Workers>(std::move(batches), options)) {}

Loader::~Loader() = default;

const Batches& Loader::batches() const { return workers_->batches(); }

std::optional<Batch> Loader::next() { return workers_->next(); }

}  // namespace lacuna
