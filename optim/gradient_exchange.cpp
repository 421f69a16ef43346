#include "optim/gradient_exchange.h"

#include "core/error.h"
#include "core/openmp.h"
#include "core/parallel.h"

#include <algorithm>
#include <utility>

namespace lacuna {

GradientExchange::GradientExchange(Communicator& ranks, const ExchangeOptions& options)
    : options_(options), ranks_(ranks.duplicate()) {
  ranks_->describe("gradients");
  thread_ = std::jthread([this](const std::stop_token& stop) {
    leave_place();
    run(stop);
  });
}

GradientExchange::~GradientExchange() = default;

void GradientExchange::add(Parameter& parameter) {
  // Add passes one tensor on to both of its inputs: another parameter may have the same one.
  if (!parameter.grad().unique()) parameter.set_grad(parameter.grad().clone(Purpose::gradients));
  const Tensor& gradient = parameter.grad();
  // What goes into which bucket follows from the order of parameters alone: it has to be the same on all ranks.
  if (!open_.parts.empty() && open_.parts.front().gradient.dtype() != gradient.dtype()) send_open();
  ++left_;
  pending_bytes_ += gradient.bytes();
  std::int64_t begin = 0;
  bool spans_several = false;
  do {
    const std::int64_t room =
        (is_first_ ? options_.first_bucket_bytes : options_.bucket_bytes) / size_of(gradient.dtype());
    const std::int64_t count = std::min(gradient.count() - begin, room - open_.count);
    const bool completes = begin + count == gradient.count();
    open_.parts.push_back({gradient, begin, count, completes ? &parameter : nullptr, parameter.path()});
    open_.count += count;
    begin += count;
    if (open_.count == room || (completes && spans_several)) send_open();
    spans_several = true;
  } while (begin < gradient.count());
}

void GradientExchange::flush() {
  send_open();
  is_first_ = true;  // of the next pass
}

void GradientExchange::send_open() {
  if (open_.parts.empty()) return;
  is_first_ = false;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::exchange(open_, {}));
  }
  has_work_.notify_one();
}

Parameter* GradientExchange::next(bool wait) {
  if (left_ == 0) return nullptr;
  std::unique_lock lock(mutex_);
  if (wait) is_done_.wait(lock, [&] { return !done_.empty() || error_; });
  if (error_) std::rethrow_exception(error_);
  if (done_.empty()) return nullptr;
  Parameter* const parameter = done_.front();
  done_.pop_front();
  --left_;
  pending_bytes_ -= parameter->grad().bytes();
  return parameter;
}

void GradientExchange::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (has_work_.wait(lock, stop, [&] { return !waiting_.empty(); })) {
    Bucket bucket = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      exchange(bucket);
    } catch (...) {
      error = std::current_exception();
    }
    std::vector<Parameter*> whole;
    for (const Part& part : bucket.parts)
      if (part.completes != nullptr) whole.push_back(part.completes);
    bucket.parts.clear();  // the parameters alone hold their gradients again
    lock.lock();
    if (error) error_ = error;
    done_.insert(done_.end(), whole.begin(), whole.end());
    is_done_.notify_one();
    if (error) return;
  }
}

void GradientExchange::exchange(const Bucket& bucket) {
  // Ranks whose graphs differ would add up gradients of different parameters.
  std::string order;
  for (const Part& part : bucket.parts) order += fmt::format("{} [{}, {}) ", part.path, part.begin, part.count);
  const auto hash = static_cast<std::int64_t>(std::hash<std::string>()(order));
  std::vector<std::int64_t> hashes(static_cast<std::size_t>(ranks_->size()));
  ranks_->all_gather(std::as_bytes(std::span(&hash, 1)), std::as_writable_bytes(std::span(hashes)));
  for (std::size_t rank = 0; rank < hashes.size(); ++rank)
    if (hashes[rank] != hash)
      fail(
          "rank {} completed the gradients of other parameters than rank {}, in a bucket that begins with {}: all "
          "ranks "
          "must compute the same graph",
          rank, ranks_->rank(), bucket.parts.front().path);

  const DType dtype = bucket.parts.front().gradient.dtype();
  std::unique_ptr<RankOrderSum>& sum = sums_[dtype];
  if (!sum || sum->count() < bucket.count) {
    sum.reset();
    sum = std::make_unique<RankOrderSum>(*ranks_, bucket.count, dtype, options_.sent.value_or(dtype));
  }
  const auto for_parts = [&](auto&& f) {
    std::int64_t at = 0;
    for (const Part& part : bucket.parts) {
      f(at, part.gradient.raw() + part.begin * size_of(dtype), part.count);
      at += part.count;
    }
  };
  for_parts([&](std::int64_t at, std::byte* values, std::int64_t count) { sum->put(at, values, count); });
  sum->run(bucket.count);
  for_parts([&](std::int64_t at, std::byte* values, std::int64_t count) { sum->take(at, values, count); });
}

}  // namespace lacuna
