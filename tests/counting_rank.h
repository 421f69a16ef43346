// A rank that counts the bytes that it sends.
#pragma once

#include "core/communicator.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace lacuna::test {

/// Passes everything on to `ranks`, which outlives it, and adds up what leaves this rank for others.
class CountingRank final : public Communicator {
 public:
  CountingRank(Communicator& ranks, std::atomic<std::int64_t>& sent) : ranks_(ranks), sent_(sent) {}
  CountingRank(std::unique_ptr<Communicator> ranks, std::atomic<std::int64_t>& sent)
      : own_(std::move(ranks)), ranks_(*own_), sent_(sent) {}

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  void broadcast(std::span<std::byte> bytes, int root) override {
    if (rank() == root) count(bytes.size() * others());
    ranks_.broadcast(bytes, root);
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    count(mine.size() * others());
    ranks_.all_gather(mine, all);
  }
  using Communicator::all_to_all;
  void all_to_all(std::span<const std::byte> send, std::span<const Section> to, std::span<std::byte> receive,
                  std::span<const Section> from) override {
    for (std::size_t rank = 0; rank < to.size(); ++rank)
      if (static_cast<int>(rank) != this->rank()) count(to[rank].bytes);
    ranks_.all_to_all(send, to, receive, from);
  }
  void barrier() override { ranks_.barrier(); }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<CountingRank>(ranks_.duplicate(), sent_);
  }
  void abort(int code) override { ranks_.abort(code); }

 private:
  std::size_t others() const { return static_cast<std::size_t>(size() - 1); }
  void count(std::size_t bytes) { sent_ += static_cast<std::int64_t>(bytes); }

  std::unique_ptr<Communicator> own_;
  Communicator& ranks_;
  std::atomic<std::int64_t>& sent_;
};

}  // namespace lacuna::test
