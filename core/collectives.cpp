#include "core/collectives.h"

#include "core/kernel_scope.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace lacuna {
namespace {

template <class T>
std::span<std::byte> bytes_in(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

/// What each rank gave, one behind another, and how many values that are.
template <class T>
std::pair<std::vector<T>, std::vector<std::int64_t>> all_gather_any_length(Communicator& ranks,
                                                                           std::span<const T> mine) {
  const auto size = static_cast<std::size_t>(ranks.size());
  std::vector<std::int64_t> own{std::ssize(mine)}, lengths(size);
  ranks.all_gather(bytes_in(own), bytes_in(lengths));
  const auto longest = static_cast<std::size_t>(std::ranges::max(lengths));
  std::vector<T> padded(mine.begin(), mine.end()), all(size * longest);
  padded.resize(longest);
  if (longest > 0) ranks.all_gather(bytes_in(padded), bytes_in(all));
  return {std::move(all), std::move(lengths)};
}

/// Results[r]: made of the values that rank r gave.
template <class Result, class T>
std::vector<Result> by_rank(const std::vector<T>& all, const std::vector<std::int64_t>& lengths) {
  const std::int64_t longest = std::ranges::max(lengths);
  std::vector<Result> results;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    const auto begin = all.begin() + static_cast<std::int64_t>(rank) * longest;
    results.emplace_back(begin, begin + lengths[rank]);
  }
  return results;
}

void convert(const std::byte* from, DType from_type, std::byte* to, DType to_type, std::int64_t count) {
  if (from_type == to_type) {
    std::memcpy(to, from, static_cast<std::size_t>(count * size_of(to_type)));
    return;
  }
  with_float_type(from_type, [&]<class From>(Type<From>) {
    with_float_type(to_type, [&]<class To>(Type<To>) {
      const From* const values = reinterpret_cast<const From*>(from);
      std::transform(values, values + count, reinterpret_cast<To*>(to),
                     [](From value) { return static_cast<To>(static_cast<Compute<To>>(to_compute(value))); });
    });
  });
}

}  // namespace

std::string broadcast_text(Communicator& ranks, std::string text, int root) {
  std::vector<std::int64_t> length{std::ssize(text)};
  ranks.broadcast(bytes_in(length), root);
  text.resize(static_cast<std::size_t>(length.front()));
  if (!text.empty()) ranks.broadcast(std::as_writable_bytes(std::span(text)), root);
  return text;
}

std::vector<std::string> all_gather_texts(Communicator& ranks, const std::string& mine) {
  const auto [all, lengths] = all_gather_any_length(ranks, std::span<const char>(mine));
  return by_rank<std::string>(all, lengths);
}

std::vector<std::vector<double>> all_gather_numbers(Communicator& ranks, std::span<const double> mine) {
  const auto [all, lengths] = all_gather_any_length(ranks, mine);
  return by_rank<std::vector<double>>(all, lengths);
}

std::int64_t largest_of_ranks(Communicator& ranks, std::int64_t mine) {
  std::vector<std::int64_t> own{mine}, all(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(bytes_in(own), bytes_in(all));
  return std::ranges::max(all);
}

std::int64_t sum_of_ranks(Communicator& ranks, std::int64_t mine) {
  std::vector<std::int64_t> own{mine}, all(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(bytes_in(own), bytes_in(all));
  return std::accumulate(all.begin(), all.end(), std::int64_t{0});
}

void expect_same_on_all_ranks(Communicator& ranks, std::string_view what, const std::string& mine) {
  const std::vector<std::string> all = all_gather_texts(ranks, mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all.front())
      reject("{} of rank {} differs from that of rank 0: {}; expected {}", what, rank, all[rank], all.front());
}

RankOrderSum::RankOrderSum(Communicator& ranks, std::int64_t count, DType dtype, DType sent)
    : ranks_(ranks), dtype_(dtype), sent_(sent), slice_((count + ranks.size() - 1) / ranks.size()) {
  expect(is_floating(dtype) && is_floating(sent), "expected numbers of a floating type to add up over ranks, got {}",
         name_of(is_floating(dtype) ? sent : dtype));
  const AllocationScope scope({Purpose::workspace, Label("sum over ranks"), {}});
  send_ = Tensor::zeros({ranks.size(), slice_}, sent, Device::cpu, Purpose::workspace);
  receive_ = Tensor::empty({ranks.size(), slice_}, sent, Device::cpu, Purpose::workspace);
  sum_ = Tensor::empty({slice_}, sent, Device::cpu, Purpose::workspace);
}

void RankOrderSum::put(std::int64_t at, const std::byte* values, std::int64_t count) const {
  convert(values, dtype_, send_.raw() + at * size_of(sent_), sent_, count);
}

void RankOrderSum::take(std::int64_t at, std::byte* values, std::int64_t count) const {
  convert(send_.raw() + at * size_of(sent_), sent_, values, dtype_, count);
}

void RankOrderSum::run(std::int64_t used) const {
  // A thread beside those that compute: it adds up alone.
  const KernelScope kernel;
  const std::int64_t ranks = ranks_.size(), slice = (used + ranks - 1) / ranks, bytes = slice * size_of(sent_);
  expect(slice <= slice_, "{} numbers do not fit into an array of {}", used, count());
  if (slice == 0) return;
  const std::span<std::byte> send(send_.raw(), static_cast<std::size_t>(ranks * bytes)),
      sum(sum_.raw(), static_cast<std::size_t>(bytes));
  // Each in one message: a slice of a few bytes takes as long as all of it.
  constexpr std::int64_t few_bytes = 4096;
  if (ranks * bytes <= few_bytes) {
    Tensor everything = Tensor::empty({ranks, ranks * slice}, sent_, Device::cpu, Purpose::workspace);
    ranks_.all_gather(send, {everything.raw(), static_cast<std::size_t>(ranks * ranks * bytes)});
    add_rows(everything, ranks * slice, send_);
    return;
  }
  sum_slice(slice);
  ranks_.all_gather(sum, send);
}

void RankOrderSum::run_to_owners(std::span<const std::int64_t> ends) const {
  const KernelScope kernel;
  const std::int64_t ranks = ranks_.size(), slice = (ends.back() + ranks - 1) / ranks;
  if (slice == 0) return;
  sum_slice(slice);
  // This rank's slice overlaps with what several ranks own, and its own part with the slices of several ranks.
  const auto bytes = [&](std::int64_t count) { return static_cast<std::size_t>(count * size_of(sent_)); };
  const auto part_of = [&](std::int64_t owner) {
    return std::pair(owner == 0 ? 0 : ends[static_cast<std::size_t>(owner - 1)], ends[static_cast<std::size_t>(owner)]);
  };
  const auto [own_begin, own_end] = part_of(ranks_.rank());
  const std::int64_t first = slice * ranks_.rank();  // of this rank's slice
  std::vector<Section> to, from;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const auto [begin, end] = part_of(rank);
    const std::int64_t low = std::max(begin, first), high = std::max(low, std::min(end, first + slice));
    to.push_back({bytes(std::min(low - first, slice)), bytes(high - low)});
    const std::int64_t there = std::max(own_begin, slice * rank),
                       until = std::max(there, std::min(own_end, slice * (rank + 1)));
    from.push_back({bytes(there), bytes(until - there)});
  }
  ranks_.all_to_all(std::span<const std::byte>(sum_.raw(), bytes(slice)), to, {send_.raw(), bytes(slice * ranks)},
                    from);
}

void RankOrderSum::sum_slice(std::int64_t slice) const {
  expect(slice <= slice_, "{} numbers do not fit into an array of {}", slice * ranks_.size(), count());
  const auto bytes = static_cast<std::size_t>(ranks_.size() * slice * size_of(sent_));
  ranks_.all_to_all({send_.raw(), bytes}, {receive_.raw(), bytes});
  add_rows(receive_, slice, sum_);
}

void RankOrderSum::add_rows(const Tensor& rows, std::int64_t width, const Tensor& sum) const {
  with_float_type(sent_, [&]<class T>(Type<T>) {
    const T* const from = rows.data<const T>();  // [ranks, width]
    T* const to = sum.data<T>();                 // [width]
    std::copy_n(from, width, to);
    for (std::int64_t rank = 1; rank < ranks_.size(); ++rank) {
      const T* const row = from + rank * width;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width; ++i) to[i] = static_cast<T>(to_compute(to[i]) + to_compute(row[i]));
    }
  });
}

}  // namespace lacuna
