// A watchdog for hanging ranks; MPI alone would wait for them forever.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include <mpi.h>

namespace lacuna {

/// Heartbeats: twice a second each rank reports its current operation to rank 0, and rank 0 signals all ranks. If a
/// rank is silent for `silence`, or others wait for it longer than the timeout, the run ends with a message that names
/// the rank and the operation.
class Watch {
 public:
  static constexpr int channels = 8;  // that are watched; no program has more communicators at once

  explicit Watch(double timeout);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void describe(int channel, std::string_view operation);

  /// While this object lives, this rank waits for the others in an operation of the channel. `hears_all`: the operation
  /// ends only when every rank has taken part, which proves that all are alive even if their heartbeats are delayed
  /// behind large messages.
  class Operation {
   public:
    Operation(Watch& watch, int channel, bool hears_all);
    ~Operation();
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

   private:
    Watch& watch_;
    int channel_;
    bool hears_all_;
  };

  /// Ends all ranks.
  [[noreturn]] static void end_all(int code);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t name_bytes = 48;
  struct Place {
    std::int64_t operations = 0;  // number of operations begun
    std::int64_t waits = 0;       // 1 during an operation
    std::array<char, name_bytes> name{};
  };
  struct State {
    std::int64_t leaving = 0;  // 1: the last message
    std::array<Place, channels> places{};
  };
  struct Peer {
    State state{};
    Clock::time_point heard = Clock::now();
    std::array<Clock::time_point, channels> waits_since{};
    MPI_Request request = MPI_REQUEST_NULL;
    State sent{};  // the buffer of `request`
  };

  void run();
  void send(int to, bool leaving);
  void receive();
  void judge(Clock::time_point now) const;
  /// Prints a message about the rank at fault and ends all ranks.
  [[noreturn]] void accuse(int rank, const char* why, double seconds, const Place& place) const;

  double timeout_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  mutable std::mutex mutex_;  // guards the two members below
  State state_{};
  Clock::time_point heard_all_ = Clock::now();
  std::vector<Peer> peers_;  // on rank 0: all ranks; on the others: rank 0
  std::atomic<bool> leaving_ = false;
  std::thread thread_;
};

}  // namespace lacuna
