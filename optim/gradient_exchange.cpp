#include "optim/gradient_exchange.h"

#include "core/error.h"
#include "core/openmp.h"
#include "core/parallel.h"
#include "optim/optimizer.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lacuna {

std::int64_t bucket_bytes_for(std::int64_t trained) {
  constexpr std::int64_t parts = 16, least = std::int64_t{1} << 20, most = std::int64_t{25} << 20;
  return std::clamp(trained / parts, least, most);
}

GradientExchange::GradientExchange(Communicator& ranks, std::int64_t trained, const ExchangeOptions& options)
    : options_(options),
      bucket_bytes_(options.bucket_bytes.value_or(bucket_bytes_for(trained))),
      ranks_(ranks),
      channel_(ranks.duplicate()) {
  expect(!options.in_8_bits || options.owners == nullptr,
         "gradients in 8 bits go to all ranks, not to their owners alone");
  channel_->describe("gradients");
  if (channel_->device() != Device::cpu) {
    expect(!options.in_8_bits, "gradients of {} are not exchanged in 8 bits", name_of(channel_->device()));
    return;
  }
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
  // The order of parameters alone decides the buckets, because they have to be the same on all ranks.
  if (!open_.parts.empty() && open_.parts.front().gradient.dtype() != gradient.dtype()) send_open();
  ++left_;
  pending_bytes_ += gradient.bytes();
  std::int64_t begin = 0;
  bool spans_several = false;
  do {
    const std::int64_t room = (is_first_ ? options_.first_bucket_bytes : bucket_bytes_) / size_of(gradient.dtype());
    const std::int64_t count = std::min(gradient.count() - begin, room - open_.count);
    const bool completes = begin + count == gradient.count();
    open_.parts.push_back(
        {gradient, begin, count, &parameter, completes, goes_to_owners() ? options_.owners->owner_of(parameter) : 0});
    open_.count += count;
    begin += count;
    if (open_.count == room || (completes && spans_several)) send_open();
    spans_several = true;
  } while (begin < gradient.count());
}

void GradientExchange::flush() {
  send_open();
  is_first_ = true;  // of the next pass
  const std::string order = std::exchange(order_, {});
  if (!thread_.joinable() && checks_order_) check_order(order);
}

void GradientExchange::send_open() {
  if (open_.parts.empty()) return;
  is_first_ = false;
  if (!thread_.joinable()) return queue_on_side_stream(std::exchange(open_, {}));
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::exchange(open_, {}));
  }
  has_work_.notify_one();
}

Parameter* GradientExchange::next(bool wait) {
  if (left_ == 0) return nullptr;
  const auto returned = [&](Parameter* parameter) {
    --left_;
    pending_bytes_ -= parameter->grad().bytes();
    if (goes_to_owners() && !options_.owners->holds(*parameter)) parameter->set_grad({});
    return parameter;
  };
  if (!thread_.joinable()) {
    if (!wait) return nullptr;  // whether the device is so far is not asked
    expect(!queued_.empty(), "{} gradients were not sent: flush comes before the last of them", left_);
    const auto [parameter, mark] = std::move(queued_.front());
    queued_.pop_front();
    wait_for(channel_->device(), *mark);
    return returned(parameter);
  }
  std::unique_lock lock(mutex_);
  if (wait) is_done_.wait(lock, [&] { return !done_.empty() || error_; });
  if (error_) std::rethrow_exception(error_);
  if (done_.empty()) return nullptr;
  Parameter* const parameter = done_.front();
  done_.pop_front();
  return returned(parameter);
}

void GradientExchange::queue_on_side_stream(const Bucket& bucket) {
  order_ += order_of(bucket);
  const RankOrderSum& sum = sum_for(bucket);  // its memory is made by the device's own stream
  const SideStreamScope beside(channel_->device());
  exchange(bucket, sum);
  const std::shared_ptr<StreamMark> mark = beside.mark();
  for (const Part& part : bucket.parts)
    if (part.completes) queued_.emplace_back(part.parameter, mark);
}

void GradientExchange::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (has_work_.wait(lock, stop, [&] { return !waiting_.empty(); })) {
    Bucket bucket = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      check_order(order_of(bucket));
      if (options_.in_8_bits)
        exchange_in_8_bits(bucket);
      else
        exchange(bucket, sum_for(bucket));
    } catch (...) {
      error = std::current_exception();
    }
    std::vector<Parameter*> whole;
    for (const Part& part : bucket.parts)
      if (part.completes) whole.push_back(part.parameter);
    bucket.parts.clear();  // the parameters alone hold their gradients again
    lock.lock();
    if (error) error_ = error;
    done_.insert(done_.end(), whole.begin(), whole.end());
    is_done_.notify_one();
    if (error) return;
  }
}

std::string GradientExchange::order_of(const Bucket& bucket) {
  std::string order;
  for (const Part& part : bucket.parts)
    order += fmt::format("{} [{}, {}) ", part.parameter->path(), part.begin, part.count);
  return order + '\n';
}

void GradientExchange::check_order(const std::string& order) const {
  // Ranks whose graphs differ would add up gradients of different parameters.
  const auto hash = static_cast<std::int64_t>(std::hash<std::string>()(order));
  std::vector<std::int64_t> hashes(static_cast<std::size_t>(channel_->size()));
  channel_->host().all_gather(std::as_bytes(std::span(&hash, 1)), std::as_writable_bytes(std::span(hashes)));
  for (std::size_t rank = 0; rank < hashes.size(); ++rank)
    if (hashes[rank] != hash)
      fail(
          "rank {} completed the gradients of other parameters than rank {}, in {}: all ranks must compute the same "
          "graph",
          rank, channel_->rank(),
          std::ranges::count(order, '\n') == 1 ? "a bucket that begins with " + order.substr(0, order.find(' '))
                                               : "one of the buckets of a step");
}

const RankOrderSum& GradientExchange::sum_for(const Bucket& bucket) {
  const DType dtype = bucket.parts.front().gradient.dtype();
  std::unique_ptr<RankOrderSum>& sum = sums_[dtype];
  if (sum && sum->count() >= bucket.count) return *sum;
  if (sum && !thread_.joinable()) {  // the side stream may use it still
    const SideStreamScope beside(channel_->device());
    wait_for(channel_->device(), *beside.mark());
  }
  sum.reset();
  sum = std::make_unique<RankOrderSum>(*channel_, bucket.count, dtype, options_.sent.value_or(dtype));
  return *sum;
}

void GradientExchange::exchange(const Bucket& bucket, const RankOrderSum& sum) const {
  // The gradients of one owner are contiguous.
  std::vector<const Part*> parts;
  for (const Part& part : bucket.parts) parts.push_back(&part);
  std::ranges::stable_sort(parts, {}, &Part::owner);
  std::vector<std::int64_t> ends(static_cast<std::size_t>(channel_->size()));
  for (const Part* part : parts) ends[static_cast<std::size_t>(part->owner)] += part->count;
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  const auto for_parts = [&](auto&& f) {
    std::int64_t at = 0;
    for (const Part* part : parts) {
      const Tensor& gradient = part->gradient;
      f(at, *part, gradient.reshape({gradient.count()}).leading(part->begin, part->begin + part->count));
      at += part->count;
    }
  };
  for_parts([&](std::int64_t at, const Part&, const Tensor& values) { sum.put(at, values); });
  if (goes_to_owners())
    sum.run_to_owners(ends);
  else
    sum.run(bucket.count);
  for_parts([&](std::int64_t at, const Part& part, const Tensor& values) {
    if (!goes_to_owners() || part.owner == channel_->rank()) sum.take(at, values);
  });
}

void GradientExchange::exchange_in_8_bits(const Bucket& bucket) {
  if (!quantized_sum_ || quantized_sum_->count() < bucket.count) {
    quantized_sum_.reset();
    quantized_sum_ = std::make_unique<QuantizedSum>(*channel_, bucket.count);
  }
  const auto for_parts = [&](const auto& f) {
    const KernelScope kernel;
    std::int64_t at = 0;
    for (const Part& part : bucket.parts) {
      Tensor& lost = lost_[part.parameter];
      if (!lost.defined()) {
        const AllocationScope scope({Purpose::optimizer, Label("lost by the exchange"), Label(part.parameter->path())});
        lost = Tensor::zeros(part.gradient.shape(), DType::f32, Device::cpu, Purpose::optimizer);
      }
      with_float_type(part.gradient.dtype(), [&]<class T>(Type<T>) {
        T* const gradient = part.gradient.data<T>() + part.begin;
        float* const l = lost.data<float>() + part.begin;
        for (std::int64_t i = 0; i < part.count; ++i, ++at) f(gradient[i], l[i], at);
      });
    }
  };
  float* const values = quantized_sum_->values();
  for_parts([&]<class T>(T& gradient, float& lost, std::int64_t at) {
    values[at] = static_cast<float>(to_compute(gradient)) + lost;
  });
  quantized_sum_->run(bucket.count);
  const float* const lost_now = quantized_sum_->lost();
  for_parts([&]<class T>(T& gradient, float& lost, std::int64_t at) {
    gradient = static_cast<T>(values[at]);
    lost = lost_now[at];
  });
}

}  // namespace lacuna
