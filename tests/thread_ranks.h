// Ranks that are threads of the test.
#pragma once

#include "core/communicator.h"
#include "core/error.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace lacuna::test {

/// A barrier for threads. If one of them fails, the others do not wait for it.
class Meeting {
 public:
  explicit Meeting(int size) : size_(size) {}
  void arrive_and_wait() {
    std::unique_lock lock(mutex_);
    const int round = round_;
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++round_;
      all_arrived_.notify_all();
      return;
    }
    using namespace std::chrono_literals;
    while (!all_arrived_.wait_for(lock, 10ms, [&] { return round_ != round; }))
      if (failed) throw Error(Fault::run, "another rank failed");
  }

  std::atomic<bool> failed = false;

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable all_arrived_;
  int arrived_ = 0, round_ = 0;
};

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
    if (rank == 0) {
      const std::lock_guard lock(mutex_);
      next_ = std::make_shared<ThreadChannel>(size_);
      channels_.push_back(next_);
    }
    arrived_.arrive_and_wait();
    std::shared_ptr<ThreadChannel> next = next_;
    arrived_.arrive_and_wait();
    return next;
  }
  /// A rank will come no more.
  void fail() {
    arrived_.failed = true;
    const std::lock_guard lock(mutex_);
    for (const auto& channel : channels_) channel->fail();
  }

 private:
  Meeting arrived_;
  std::vector<std::span<const std::byte>> sent_;
  std::mutex mutex_;
  std::shared_ptr<ThreadChannel> next_;
  std::vector<std::shared_ptr<ThreadChannel>> channels_;
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
  using Communicator::all_to_all;
  void all_to_all(std::span<const std::byte> send, std::span<const Section> to, std::span<std::byte> receive,
                  std::span<const Section> from) override {
    std::vector<std::vector<Section>> all(static_cast<std::size_t>(size()));
    channel_->exchange(rank_, std::as_bytes(to), [&](const auto& sent) {
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        all[rank].resize(sent[rank].size() / sizeof(Section));
        std::memcpy(all[rank].data(), sent[rank].data(), sent[rank].size());
      }
    });
    channel_->exchange(rank_, send, [&](const auto& sent) {
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const Section& section = all[rank][static_cast<std::size_t>(rank_)];
        expect(section.bytes == from[rank].bytes, "rank {} sends {} bytes, and rank {} expects {}", rank, section.bytes,
               rank_, from[rank].bytes);
        std::ranges::copy(sent[rank].subspan(section.begin, section.bytes), receive.subspan(from[rank].begin).begin());
      }
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

/// Runs `f(communicator)` as each of `size` ranks, and throws the error of one.
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
          channel->fail();
        }
      });
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace lacuna::test
