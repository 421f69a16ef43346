// Collective operations on texts, numbers and flat arrays, made of those of a Communicator.
#pragma once

#include "core/communicator.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// That of rank `root`, on every rank.
std::string broadcast_text(Communicator& ranks, std::string text, int root = 0);
/// The text of each rank, in the order of the ranks.
std::vector<std::string> all_gather_texts(Communicator& ranks, const std::string& mine);
/// The same for numbers, of which each rank may give another count.
std::vector<std::vector<double>> all_gather_numbers(Communicator& ranks, std::span<const double> mine);
/// The largest that a rank gave.
std::int64_t largest_of_ranks(Communicator& ranks, std::int64_t mine);
std::int64_t sum_of_ranks(Communicator& ranks, std::int64_t mine);
/// Fails and names the first rank whose text differs from that of rank 0. `what` begins the message: `the
/// configuration`.
void expect_same_on_all_ranks(Communicator& ranks, std::string_view what, const std::string& mine);

/// Sums flat arrays over the ranks, always in their order. Each rank adds up one slice of all, so that as many bytes
/// travel as in a ring: 2 (N − 1) / N of the array's. For one thread, which need not be the one that made it.
class RankOrderSum {
 public:
  /// For arrays of up to `count` elements of `dtype`, a floating type. What travels is of type `sent`.
  RankOrderSum(Communicator& ranks, std::int64_t count, DType dtype, DType sent);

  std::int64_t count() const { return slice_ * ranks_.size(); }
  /// Elements [at, at + values.count()) of the array; values: [count].
  void put(std::int64_t at, const Tensor& values) const;
  /// The same elements of the sum, after `run`.
  void take(std::int64_t at, const Tensor& values) const;
  /// Sums the first `used` elements.
  void run(std::int64_t used) const;
  /// The same; rank r gets elements [ends[r − 1], ends[r]) of the sum alone, and the others are undefined there.
  void run_to_owners(std::span<const std::int64_t> ends) const;

 private:
  /// sum_: this rank's slice of the sum; slices have `slice` elements.
  void sum_slice(std::int64_t slice) const;
  /// Elements of which each rank sends all to all others, in one message.
  std::int64_t few(DType sent) const;

  Communicator& ranks_;
  std::int64_t slice_;  // ⌈count / ranks⌉
  // On the communicator's device, of the type that travels.
  Tensor send_, receive_;  // [ranks · slice]; the second is [ranks · few] at least
  Tensor sum_;             // [slice]
};

}  // namespace lacuna
