// Watches that all ranks live and take part: MPI alone waits for ever for a rank that hangs.
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

/// Each rank tells rank 0 twice a second where it is, and rank 0 tells all that it lives. A rank that is silent for
/// `silence`, or that others wait for longer than a timeout, ends the run, and is named with the operation.
class Watch {
 public:
  static constexpr int channels = 4;  // that are told apart

  explicit Watch(double timeout);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void describe(int channel, std::string_view operation);

  /// While it lives, this rank waits for the others in an operation of the channel. `hears_all`: it ends only when
  /// every rank has taken part, which tells that they live even where their messages wait behind large ones.
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
    std::int64_t operations = 0;  // that were begun
    std::int64_t waits = 0;       // 1 while one goes on
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
    State sent{};  // while `request` goes on
  };

  void run();
  void send(int to, bool leaving);
  void receive();
  void judge(Clock::time_point now) const;
  /// Names a rank that others wait for; ends all.
  [[noreturn]] void accuse(int rank, const char* why, double seconds, const Place& place) const;

  double timeout_;
  MPI_Comm ranks_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  mutable std::mutex mutex_;  // guards the two members below
  State state_{};
  Clock::time_point heard_all_ = Clock::now();
  std::vector<Peer> peers_;  // of rank 0: all; of others: rank 0 alone
  std::atomic<bool> leaving_ = false;
  std::thread thread_;
};

}  // namespace lacuna
