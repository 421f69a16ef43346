// Ranks that are threads of the test.
#pragma once

#include "core/communicator.h"
#include "core/error.h"

#include <algorithm>
#include <barrier>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lacuna::test {

/// One channel of several threads.
class ThreadChannel {
 public:
  explicit ThreadChannel(int size) : arrived_(size), sent_(static_cast<std::size_t>(size)), size_(size) {}

  int size() const { return size_; }
  /// Calls `take` with what each rank sends, while all of it is there.
  template <class Take>
  void exchange(int rank, std::span<const std::byte> mine, const Take& take) {
    sent_[static_cast<std::size_t>(rank)] = mine;
    arrived_.arrive_and_wait();
    take(sent_);
    arrived_.arrive_and_wait();
  }
  /// The next channel, which all ranks share.
  std::shared_ptr<ThreadChannel> duplicate(int rank) {
    arrived_.arrive_and_wait();
    if (rank == 0) next_ = std::make_shared<ThreadChannel>(size_);
    arrived_.arrive_and_wait();
    std::shared_ptr<ThreadChannel> next = next_;
    arrived_.arrive_and_wait();
    return next;
  }

 private:
  std::barrier<> arrived_;
  std::vector<std::span<const std::byte>> sent_;
  std::shared_ptr<ThreadChannel> next_;
  int size_;
};

class ThreadRank final : public Communicator {
 public:
  ThreadRank(std::shared_ptr<ThreadChannel> channel, int rank) : channel_(std::move(channel)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return channel_->size(); }
  using Communicator::broadcast;
  void broadcast(std::span<std::byte> bytes, int root) override {
    channel_->exchange(rank_, bytes, [&](const auto& sent) {
      if (rank_ != root) std::ranges::copy(sent[static_cast<std::size_t>(root)], bytes.begin());
    });
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    channel_->exchange(rank_, mine, [&](const auto& sent) {
      auto next = all.begin();
      for (const auto& part : sent) next = std::ranges::copy(part, next).out;
    });
  }
  void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive) override {
    const std::size_t bytes = send.size() / static_cast<std::size_t>(size());
    channel_->exchange(rank_, send, [&](const auto& sent) {
      auto next = receive.begin();
      for (const auto& part : sent)
        next = std::ranges::copy(part.subspan(bytes * static_cast<std::size_t>(rank_), bytes), next).out;
    });
  }
  void barrier() override {
    channel_->exchange(rank_, {}, [](const auto&) {});
  }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<ThreadRank>(channel_->duplicate(rank_), rank_);
  }
  void abort(int) override { std::terminate(); }

 private:
  std::shared_ptr<ThreadChannel> channel_;
  int rank_;
};

/// Runs `f(communicator)` as each of `size` ranks, and throws the first error. All ranks have to meet the same one.
template <class F>
void run_ranks(int size, const F& f) {
  const auto channel = std::make_shared<ThreadChannel>(size);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        try {
          ThreadRank communicator(channel, rank);
          f(static_cast<Communicator&>(communicator));
        } catch (...) {
          errors[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace lacuna::test
