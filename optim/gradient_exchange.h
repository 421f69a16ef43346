// Gradients summed over the ranks of a run while backward goes on.
#pragma once

#include "core/backend.h"
#include "core/collectives.h"
#include "nn/module.h"
#include "optim/quantized_sum.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lacuna {

class Optimizer;

/// Bytes of a bucket where the trained parameters have `trained`: a sixteenth of them, from 1 to 25 MiB (that of
/// torch.nn.parallel.DistributedDataParallel). Nothing hides the last bucket of a pass.
std::int64_t bucket_bytes_for(std::int64_t trained);

struct ExchangeOptions {
  std::optional<std::int64_t> bucket_bytes{};  // nothing: bucket_bytes_for
  std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
  std::optional<DType> sent{};        // the type that travels; nothing: the gradients' own, which loses nothing
  bool in_8_bits = false;             // by QuantizedSum, with 4 bytes a parameter for what it lost
  const Optimizer* owners = nullptr;  // the rank that updates a parameter by it alone gets the gradient; null: all do
};

/// Gradients are put into buckets in the order in which backward completes them, and a thread of its own sends each
/// bucket when it is full (Li et al. 2020, "PyTorch Distributed", section 3.2). On a GPU its side stream does, and no
/// thread is needed. Sums are added in the order of the ranks: N ranks have the bits of one process that accumulates N
/// micro-batches.
class GradientExchange {
 public:
  /// `ranks`, on the device of the gradients, and the owners outlive it. Collective. `trained`: bytes of the
  /// parameters.
  GradientExchange(Communicator& ranks, std::int64_t trained, const ExchangeOptions& options = {});
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  /// The gradient of `parameter` is complete on this rank, and nobody else changes it until `next` returns it.
  void add(Parameter& parameter);
  /// The backward pass is over: sends the bucket that is not full.
  void flush();
  /// A parameter whose gradient is that of all ranks now, in the order of `add`; with ExchangeOptions::owners it has
  /// none on the ranks that do not own it. Null: none is ready, or with `wait` none is left. Throws the error that the
  /// thread met.
  Parameter* next(bool wait);
  /// Whether gradients pile up: then `next` can wait before `flush`.
  bool is_behind() const { return pending_bytes_ > 2 * bucket_bytes_; }
  /// Whether `flush` compares the order of the parameters on GPUs, over the host, with that of the other ranks.
  void check_order(bool checks) { checks_order_ = checks; }
  /// Whether gradients go to their owners alone.
  bool goes_to_owners() const { return options_.owners != nullptr; }
  /// The ranks whose gradients are summed; for the thread that calls `add`.
  Communicator& ranks() const { return ranks_; }

 private:
  struct Part {
    Tensor gradient;
    std::int64_t begin, count;  // elements
    Parameter* parameter;
    bool completes;  // the parameter is whole with it
    int owner = 0;   // with ExchangeOptions::owners
  };
  struct Bucket {
    std::vector<Part> parts{};
    std::int64_t count = 0;
  };

  void send_open();
  void run(const std::stop_token& stop);
  void queue_on_side_stream(const Bucket& bucket);
  /// A line that names the parts of a bucket.
  static std::string order_of(const Bucket& bucket);
  void check_order(const std::string& order) const;
  const RankOrderSum& sum_for(const Bucket& bucket);
  void exchange(const Bucket& bucket, const RankOrderSum& sum) const;
  void exchange_in_8_bits(const Bucket& bucket);

  ExchangeOptions options_;
  std::int64_t bucket_bytes_;
  Communicator& ranks_;
  std::unique_ptr<Communicator> channel_;  // this and the next three: of the thread, if there is one
  std::map<DType, std::unique_ptr<RankOrderSum>> sums_;
  std::unique_ptr<QuantizedSum> quantized_sum_;
  std::unordered_map<const Parameter*, Tensor> lost_;  // f32 in the parameter's shape, in 8 bits

  Bucket open_;  // that is not full
  bool is_first_ = true;
  std::int64_t pending_bytes_ = 0;  // of gradients that were added and not returned
  std::int64_t left_ = 0;           // parameters that were added and not returned

  std::mutex mutex_;  // guards the members below
  std::condition_variable_any has_work_, is_done_;
  std::deque<Bucket> waiting_;
  std::deque<Parameter*> done_;
  std::exception_ptr error_;

  std::string order_;  // of the buckets that were queued since the last flush, a line each
  bool checks_order_ = true;
  std::deque<std::pair<Parameter*, std::shared_ptr<StreamMark>>> queued_;  // on a side stream, until the mark
  std::jthread thread_;  // last: it stops before the members that it uses are destroyed
};

}  // namespace lacuna
