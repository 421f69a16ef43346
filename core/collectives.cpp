#include "core/collectives.h"

#include "core/device_ranks.h"
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

/// The concatenated values of all ranks, and the count of each rank.
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

/// Splits concatenated values by rank; result[r] is constructed from rank r's values.
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

/// to[i] = from[i], converted. On the CPU only this thread works, concurrently with the compute threads. from, to:
/// [count].
void copy(const Tensor& from, const Tensor& to) {
  if (to.device() != Device::cpu) return to.copy_from(from);
  if (to.count() == 0) return;
  if (from.dtype() == to.dtype()) {
    std::memcpy(to.raw(), from.data<const std::byte>(), static_cast<std::size_t>(to.bytes()));
    return;
  }
  with_float_type(from.dtype(), [&]<class From>(Type<From>) {
    with_float_type(to.dtype(), [&]<class To>(Type<To>) {
      const From* const values = from.data<const From>();
      std::transform(values, values + from.count(), to.data<To>(),
                     [](From value) { return static_cast<To>(static_cast<Compute<To>>(to_compute(value))); });
    });
  });
}

std::span<std::byte> bytes_of(const Tensor& tensor) { return {tensor.raw(), static_cast<std::size_t>(tensor.bytes())}; }

const RegisterKernel cpu_rows{add_rows_in_order, DeviceKind::cpu, [](const Tensor& rows, const Tensor& sum) {
                                with_float_type(sum.dtype(), [&]<class T>(Type<T>) {
                                  const std::int64_t width = sum.count();
                                  const T* const from = rows.data<const T>();  // [ranks, width]
                                  T* const to = sum.data<T>();                 // [width]
                                  std::copy_n(from, width, to);
                                  for (std::int64_t rank = 1; rank < rows.count() / width; ++rank) {
                                    const T* const row = from + rank * width;
#pragma GCC ivdep
                                    for (std::int64_t i = 0; i < width; ++i)
                                      to[i] = static_cast<T>(to_compute(to[i]) + to_compute(row[i]));
                                  }
                                });
                              }};

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
    : ranks_(ranks), slice_((count + ranks.size() - 1) / ranks.size()) {
  expect(is_floating(dtype) && is_floating(sent), "expected numbers of a floating type to add up over ranks, got {}",
         name_of(is_floating(dtype) ? sent : dtype));
  const AllocationScope scope({Purpose::workspace, Label("sum over ranks"), {}});
  const std::int64_t size = ranks.size();
  send_ = Tensor::zeros({size * slice_}, sent, ranks.device(), Purpose::workspace);
  receive_ = Tensor::empty({size * std::max(slice_, few(sent))}, sent, ranks.device(), Purpose::workspace);
  sum_ = Tensor::empty({slice_}, sent, ranks.device(), Purpose::workspace);
}

std::int64_t RankOrderSum::few(DType sent) const {
  constexpr std::int64_t few_bytes = 4096;
  return std::min(few_bytes / size_of(sent), slice_ * ranks_.size());
}

void RankOrderSum::put(std::int64_t at, const Tensor& values) const {
  copy(values, send_.leading(at, at + values.count()));
}

void RankOrderSum::take(std::int64_t at, const Tensor& values) const {
  copy(send_.leading(at, at + values.count()), values);
}

void RankOrderSum::run(std::int64_t used) const {
  // The caller may be a communication thread that runs concurrently with the compute threads, so it sums by itself.
  const KernelScope kernel;
  const std::int64_t ranks = ranks_.size(), slice = (used + ranks - 1) / ranks, all = ranks * slice;
  expect(slice <= slice_, "{} numbers do not fit into an array of {}", used, count());
  if (slice == 0) return;
  const Tensor send = send_.leading(0, all);
  // Small arrays are sent whole in one message, since a message of a few bytes takes as long.
  if (all <= few(send_.dtype())) {
    const Tensor everything = receive_.leading(0, ranks * all);
    ranks_.all_gather(bytes_of(send), bytes_of(everything));
    add_rows_in_order(send.device(), everything, send);
    return;
  }
  sum_slice(slice);
  ranks_.all_gather(bytes_of(sum_.leading(0, slice)), bytes_of(send));
}

void RankOrderSum::run_to_owners(std::span<const std::int64_t> ends) const {
  const KernelScope kernel;
  const std::int64_t ranks = ranks_.size(), slice = (ends.back() + ranks - 1) / ranks;
  if (slice == 0) return;
  sum_slice(slice);
  // This rank's slice may overlap with the parts of several owners, and its own part with the slices of several ranks.
  const auto bytes = [&](std::int64_t count) { return static_cast<std::size_t>(count * size_of(send_.dtype())); };
  const auto part_of = [&](std::int64_t owner) {
    return std::pair(owner == 0 ? 0 : ends[static_cast<std::size_t>(owner - 1)], ends[static_cast<std::size_t>(owner)]);
  };
  const auto [own_begin, own_end] = part_of(ranks_.rank());
  const std::int64_t first = slice * ranks_.rank();  // start of this rank's slice
  std::vector<Section> to, from;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const auto [begin, end] = part_of(rank);
    const std::int64_t low = std::max(begin, first), high = std::max(low, std::min(end, first + slice));
    to.push_back({bytes(std::min(low - first, slice)), bytes(high - low)});
    const std::int64_t there = std::max(own_begin, slice * rank),
                       until = std::max(there, std::min(own_end, slice * (rank + 1)));
    from.push_back({bytes(there), bytes(until - there)});
  }
  ranks_.all_to_all(bytes_of(sum_.leading(0, slice)), to, bytes_of(send_.leading(0, slice * ranks)), from);
}

void RankOrderSum::sum_slice(std::int64_t slice) const {
  expect(slice <= slice_, "{} numbers do not fit into an array of {}", slice * ranks_.size(), count());
  const std::int64_t all = ranks_.size() * slice;
  ranks_.all_to_all(bytes_of(send_.leading(0, all)), bytes_of(receive_.leading(0, all)));
  add_rows_in_order(sum_.device(), receive_.leading(0, all), sum_.leading(0, slice));
}

}  // namespace lacuna
