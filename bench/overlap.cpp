// Benchmark of the overlap between gradient exchange and backward: runs rank 0 of two; the other rank is simulated and
// answers after the time that a network of the given bandwidth takes.
//
//     bench_overlap CONFIG.yaml STEPS BYTES_PER_SECOND [key=value ...]
//
// Steps over that network alternate with steps over an instantaneous one. Prints medians: the seconds of messages per
// step, the increase in step time, and the share of message time that backward hides.
#include "apps/config/resolve.h"
#include "apps/train/measure.h"
#include "apps/train/ranks.h"
#include "bench/bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace lacuna;

namespace {

/// Rank 0 of two; the simulated other rank echoes what it receives. Duplicated channels share one time counter.
class SlowRanks final : public Communicator {
 public:
  struct Network {
    double bytes_per_second;  // 0: messages take no time
    std::atomic<double> seconds = 0;
  };
  explicit SlowRanks(Network& network) : network_(network) {}

  int rank() const override { return 0; }
  int size() const override { return 2; }
  void broadcast(std::span<std::byte> bytes, int) override { travel(bytes.size()); }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    travel(mine.size());
    std::ranges::copy(mine, all.begin());
    std::ranges::copy(mine, all.subspan(mine.size()).begin());
  }
  using Communicator::all_to_all;
  void all_to_all(std::span<const std::byte> send, std::span<const Section> to, std::span<std::byte> receive,
                  std::span<const Section> from) override {
    travel(to[1].bytes);
    for (const Section& section : from)
      std::ranges::copy(send.subspan(to[0].begin, section.bytes), receive.subspan(section.begin).begin());
  }
  void barrier() override {}
  std::unique_ptr<Communicator> duplicate() override { return std::make_unique<SlowRanks>(network_); }
  void abort(int code) override { std::_Exit(code); }

 private:
  void travel(std::size_t bytes) {
    if (network_.bytes_per_second == 0) return;
    const double seconds = static_cast<double>(bytes) / network_.bytes_per_second;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    network_.seconds += seconds;
  }
  Network& network_;
};

class Subject {
 public:
  Subject(const apps::Experiment& configuration, double bytes_per_second)
      : network_{bytes_per_second}, configuration_(configuration), setup_(configuration, Device::cpu, ranks_) {}

  double step_seconds() {
    std::vector<Batch> batch = apps::example(configuration_, setup_);
    const auto begin = std::chrono::steady_clock::now();
    trainer_.step(std::move(batch), number_++, configuration_.optimizer.lr);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  /// Seconds spent on messages since the last call.
  double message_seconds() { return network_.seconds.exchange(0); }

 private:
  SlowRanks::Network network_;
  SlowRanks ranks_{network_};
  apps::Experiment configuration_;
  apps::Setup setup_;
  Trainer trainer_{setup_.trainer()};
  std::int64_t number_ = 0;
};

}  // namespace

int main(int count, char** arguments) try {
  if (count < 4) {
    std::fputs("expected CONFIG.yaml STEPS BYTES_PER_SECOND [key=value ...]\n", stderr);
    return 2;
  }
  const std::vector<std::string> overrides(arguments + 4, arguments + count);
  const apps::Experiment configuration =
      apps::resolve(apps::as_rank(apps::read_configuration(arguments[1], overrides), 0, 2));
  Subject fast(configuration, 0), slow(configuration, std::atof(arguments[3]));
  std::vector<double> fast_steps, longer, messages;
  for (int step = -2; step < std::atoi(arguments[2]); ++step) {
    const double before = fast.step_seconds(), over_network = slow.step_seconds(), after = fast.step_seconds();
    const double travelled = slow.message_seconds();
    if (step < 0) continue;
    fast_steps.push_back(before);
    longer.push_back(over_network - (before + after) / 2);
    messages.push_back(travelled);
  }
  const double exposed = bench::median(longer), travelled = bench::median(messages);
  fmt::print("step {:.3f} s; messages {:.3f} s, step longer by {:.3f} s: {:.0f} % hidden\n", bench::median(fast_steps),
             travelled, exposed, 100 * (1 - exposed / travelled));
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
