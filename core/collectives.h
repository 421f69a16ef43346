// Collective operations on texts, numbers and flat arrays, built on a Communicator.
#pragma once

#include "core/communicator.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// Broadcasts the text of rank `root`.
std::string broadcast_text(Communicator& ranks, std::string text, int root = 0);
/// The text of each rank, in the order of the ranks.
std::vector<std::string> all_gather_texts(Communicator& ranks, const std::string& mine);
/// The numbers of each rank; ranks may contribute different counts.
std::vector<std::vector<double>> all_gather_numbers(Communicator& ranks, std::span<const double> mine);
/// The maximum over the ranks.
std::int64_t largest_of_ranks(Communicator& ranks, std::int64_t mine);
std::int64_t sum_of_ranks(Communicator& ranks, std::int64_t mine);
/// Throws an error that names the first rank whose text differs from rank 0's. The message starts with `what`, such as
/// `the configuration`.
void expect_same_on_all_ranks(Communicator& ranks, std::string_view what, const std::string& mine);

/// A sum of flat arrays over the ranks (all-reduce or reduce-scatter), always added in the order of the ranks. Each
/// rank sums one slice, so each sends as many bytes as in a ring all-reduce: 2 (N − 1) / N of the array's. One thread
/// at a time may use an object; it need not be the thread that created it.
class RankOrderSum {
 public:
  /// Allocates buffers for arrays of up to `count` elements of `dtype`, a floating type, exchanged as `sent`.
  RankOrderSum(Communicator& ranks, std::int64_t count, DType dtype, DType sent);

  std::int64_t count() const { return slice_ * ranks_.size(); }
  /// Writes elements [at, at + values.count()) of this rank's array; values: [count].
  void put(std::int64_t at, const Tensor& values) const;
  /// Reads these elements of the sum, after `run`.
  void take(std::int64_t at, const Tensor& values) const;
  /// Sums the first `used` elements.
  void run(std::int64_t used) const;
  /// Reduce-scatter: rank r gets only elements [ends[r − 1], ends[r]) of the sum; the other elements are undefined
  /// there.
  void run_to_owners(std::span<const std::int64_t> ends) const;

 private:
  /// Writes this rank's slice of the sum, of `slice` elements, to `sum_`.
  void sum_slice(std::int64_t slice) const;
  /// The largest count of elements for which every rank sends its whole array to all others in one message.
  std::int64_t few(DType sent) const;

  Communicator& ranks_;
  std::int64_t slice_;  // ⌈count / ranks⌉
  // Buffers on the communicator's device, of the type that is sent.
  Tensor send_, receive_;  // [ranks · slice]; receive_ is [ranks · few] at least
  Tensor sum_;             // [slice]
};

}  // namespace lacuna
