#include "mpi/watch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace lacuna {
namespace {

using namespace std::chrono_literals;

constexpr auto between_messages = 500ms, between_looks = 100ms;
constexpr auto silence = 7s;

double seconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Watch::Watch(double timeout) : timeout_(timeout) {
  MPI_Comm_dup(MPI_COMM_WORLD, &ranks_);
  MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(ranks_, &rank_);
  MPI_Comm_size(ranks_, &size_);
  peers_ = std::vector<Peer>(static_cast<std::size_t>(rank_ == 0 ? size_ : 1));
  if (size_ > 1) thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  if (size_ > 1) {
    leaving_ = true;
    thread_.join();
  }
  MPI_Comm_free(&ranks_);
}

void Watch::describe(int channel, std::string_view operation) {
  if (channel >= channels) return;
  const std::lock_guard lock(mutex_);
  auto& name = state_.places[static_cast<std::size_t>(channel)].name;
  name.fill('\0');
  std::copy_n(operation.begin(), std::min(operation.size(), name.size() - 1), name.begin());
}

Watch::Operation::Operation(Watch& watch, int channel, bool hears_all)
    : watch_(watch), channel_(channel), hears_all_(hears_all) {
  if (channel_ >= channels) return;
  const std::lock_guard lock(watch_.mutex_);
  Place& place = watch_.state_.places[static_cast<std::size_t>(channel_)];
  ++place.operations;
  place.waits = 1;
}

Watch::Operation::~Operation() {
  const std::lock_guard lock(watch_.mutex_);
  if (hears_all_) watch_.heard_all_ = Clock::now();
  if (channel_ >= channels) return;
  watch_.state_.places[static_cast<std::size_t>(channel_)].waits = 0;
}

void Watch::end_all(int code) {
  std::fflush(nullptr);
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

void Watch::send(int to, bool leaving) {
  Peer& peer = peers_[static_cast<std::size_t>(to)];
  int done = 1;
  MPI_Test(&peer.request, &done, MPI_STATUS_IGNORE);
  if (done == 0) {  // the peer has not received the last message; the next one will carry the state
    if (!leaving) return;
    MPI_Wait(&peer.request, MPI_STATUS_IGNORE);
  }
  {
    const std::lock_guard lock(mutex_);
    peer.sent = state_;
  }
  peer.sent.leaving = leaving ? 1 : 0;
  MPI_Isend(&peer.sent, sizeof peer.sent, MPI_BYTE, to, 0, ranks_, &peer.request);
}

void Watch::receive() {
  for (;;) {
    int there = 0;
    MPI_Status status{};
    MPI_Iprobe(MPI_ANY_SOURCE, 0, ranks_, &there, &status);
    if (there == 0) return;
    State state{};
    MPI_Recv(&state, sizeof state, MPI_BYTE, status.MPI_SOURCE, 0, ranks_, MPI_STATUS_IGNORE);
    Peer& peer = peers_[static_cast<std::size_t>(status.MPI_SOURCE)];
    peer.heard = Clock::now();
    for (std::size_t i = 0; i < channels; ++i) {
      const Place &before = peer.state.places[i], &now = state.places[i];
      if (now.waits == 0 || before.waits == 0 || before.operations != now.operations) peer.waits_since[i] = peer.heard;
    }
    peer.state = state;
  }
}

void Watch::accuse(int rank, const char* why, double seconds, const Place& place) const {
  // If several ranks detect the same problem, the delays differ, so that one reports it and ends the others.
  std::this_thread::sleep_for(std::min(200ms * rank_, 2000ms));
  const std::string where =
      place.name.front() == '\0' ? std::string() : fmt::format(" (operation: {})", place.name.data());
  std::fputs(fmt::format("lacuna: rank {} {} {:.0f} s{}: all ranks end. The last checkpoint is whole; --resume goes on "
                         "from it\n",
                         rank, why, seconds, where)
                 .c_str(),
             stderr);
  end_all(1);
}

void Watch::judge(Clock::time_point now) const {
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    if (static_cast<int>(peer) == rank_ || peers_[peer].state.leaving != 0) continue;
    if (const auto quiet = now - peers_[peer].heard; quiet > silence) {
      const auto last = std::ranges::find(peers_[peer].state.places, 1, &Place::waits);
      accuse(static_cast<int>(peer), "has not answered for", seconds(quiet),
             last == peers_[peer].state.places.end() ? peers_[peer].state.places.front() : *last);
    }
  }
  if (rank_ != 0) return;
  for (std::size_t i = 0; i < channels; ++i) {
    const Place* furthest = nullptr;  // among the waiting ranks
    double waited = 0;
    for (const Peer& peer : peers_)
      if (const Place& place = peer.state.places[i];
          place.waits != 0 && (furthest == nullptr || place.operations > furthest->operations)) {
        furthest = &place;
        waited = seconds(now - peer.waits_since[i]);
      }
    if (furthest == nullptr || waited <= timeout_) continue;
    for (std::size_t peer = 0; peer < peers_.size(); ++peer)
      if (const Place& place = peers_[peer].state.places[i]; place.operations < furthest->operations)
        accuse(static_cast<int>(peer), "lives, and others have waited for it for", waited, *furthest);
  }
}

void Watch::run() {
  Clock::time_point sent{}, looked = Clock::now();
  const auto first = rank_ == 0 ? 1 : 0, end = rank_ == 0 ? size_ : 1;
  while (!leaving_) {
    const Clock::time_point now = Clock::now();
    if (now - looked > silence / 2)  // this process itself was stopped, so missing heartbeats mean nothing
      for (Peer& peer : peers_) peer.heard = now;
    looked = now;
    if (now - sent >= between_messages) {
      for (int peer = first; peer < end; ++peer) send(peer, false);
      sent = now;
    }
    receive();
    {
      const std::lock_guard lock(mutex_);
      for (Peer& peer : peers_) peer.heard = std::max(peer.heard, heard_all_);
    }
    if (rank_ == 0) {  // rank 0's own place, as if it had sent it
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < channels; ++i) {
        const Place &before = peers_[0].state.places[i], &mine = state_.places[i];
        if (mine.waits == 0 || before.waits == 0 || before.operations != mine.operations)
          peers_[0].waits_since[i] = now;
      }
      peers_[0].state = state_;
    }
    judge(now);
    std::this_thread::sleep_for(between_looks);
  }
  // No message may be in flight when MPI is finalized.
  for (int peer = first; peer < end; ++peer) send(peer, true);
  const auto has_left = [&](int peer) { return peers_[static_cast<std::size_t>(peer)].state.leaving != 0; };
  for (int peer = first; peer < end; ++peer)
    while (!has_left(peer)) {
      receive();
      if (Clock::now() - peers_[static_cast<std::size_t>(peer)].heard > silence)
        accuse(peer, "has not answered for", seconds(Clock::now() - peers_[static_cast<std::size_t>(peer)].heard), {});
      std::this_thread::sleep_for(1ms);
    }
  for (int peer = first; peer < end; ++peer)
    MPI_Wait(&peers_[static_cast<std::size_t>(peer)].request, MPI_STATUS_IGNORE);
}

}  // namespace lacuna
