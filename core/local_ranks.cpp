#include "core/local_ranks.h"

#include "core/error.h"
#include "core/system_error.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {
    if (descriptor < 0) fail("ranks: no socket: {}", last_system_error());
  }
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

Socket make_socket() { return Socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

sockaddr_un address_of(const std::filesystem::path& file) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = file.string();
  if (text.size() >= sizeof address.sun_path)
    reject("ranks: expected a shorter name of the folder for temporary files (TMPDIR), got {}", text);
  std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
  return address;
}
/// Calls again what a signal interrupted.
template <class Call>
auto uninterrupted(const Call& call) {
  for (;;)
    if (const auto result = call(); result >= 0 || errno != EINTR) return result;
}

const sockaddr* generic(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }

/// The state that all channels of a run share.
struct Place {
  std::filesystem::path folder;
  int rank, size;
  double timeout;
  int channels = 0;       // that were opened: all ranks open them in the same order
  bool lost_one = false;  // another rank has ended
};

/// Each rank has a socket to each other one.
class LocalRanks final : public Communicator {
 public:
  explicit LocalRanks(std::shared_ptr<Place> place) : place_(std::move(place)) { connect(); }

  int rank() const override { return place_->rank; }
  int size() const override { return place_->size; }
  void broadcast(std::span<std::byte> bytes, int root) override {
    std::vector<Transfer> transfers;
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank() && rank() == root)
        transfers.push_back({.peer = peer, .send = bytes});
      else if (peer != rank() && peer == root)
        transfers.push_back({.peer = peer, .receive = bytes});
    run(std::move(transfers));
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    const std::vector<Section> to(static_cast<std::size_t>(size()), Section{0, mine.size()});
    std::vector<Section> from;
    for (std::size_t peer = 0; peer < to.size(); ++peer) from.push_back({peer * mine.size(), mine.size()});
    all_to_all(mine, to, all, from);
  }
  using Communicator::all_to_all;
  void all_to_all(std::span<const std::byte> send, std::span<const Section> to, std::span<std::byte> receive,
                  std::span<const Section> from) override {
    std::vector<Transfer> transfers;
    for (int peer = 0; peer < size(); ++peer) {
      const Section &out = to[static_cast<std::size_t>(peer)], &in = from[static_cast<std::size_t>(peer)];
      const std::span<const std::byte> sent = send.subspan(out.begin, out.bytes);
      const std::span<std::byte> received = receive.subspan(in.begin, in.bytes);
      if (peer != rank())
        transfers.push_back({.peer = peer, .send = sent, .receive = received});
      else if (!sent.empty())
        std::memmove(received.data(), sent.data(), sent.size());
    }
    run(std::move(transfers));
  }
  void barrier() override {
    const std::byte mine{};
    std::vector<std::byte> all(static_cast<std::size_t>(size()));
    all_gather({&mine, 1}, all);
  }
  std::unique_ptr<Communicator> duplicate() override { return std::make_unique<LocalRanks>(place_); }
  void describe(std::string_view operation) override { operation_ = operation; }
  double timeout() const override { return place_->timeout; }
  /// The process that started the ranks ends the others.
  void abort(int code) override {
    std::fflush(nullptr);
    std::_Exit(place_->lost_one ? lost_a_rank : code);
  }

 private:
  struct Transfer {
    int peer;
    std::span<const std::byte> send{};  // what is left of it
    std::span<std::byte> receive{};
    bool done() const { return send.empty() && receive.empty(); }
  };

  void connect() {
    const int channel = place_->channels++;
    const auto file_of = [&](int rank) { return place_->folder / fmt::format("{}.{}", channel, rank); };
    const Clock::time_point begin = Clock::now();
    sockets_.resize(static_cast<std::size_t>(size()));
    const Socket door = make_socket();
    const sockaddr_un own = address_of(file_of(rank()));
    if (::bind(door.get(), generic(own), sizeof own) != 0 || ::listen(door.get(), size()) != 0)
      fail("ranks: cannot listen at {}: {}", own.sun_path, last_system_error());
    for (int peer = 0; peer < rank(); ++peer) {
      const sockaddr_un there = address_of(file_of(peer));
      Socket socket = make_socket();
      while (uninterrupted([&] { return ::connect(socket.get(), generic(there), sizeof there); }) !=
             0) {  // the peer does not listen yet
        if (errno != ENOENT && errno != ECONNREFUSED)
          fail("ranks: cannot reach rank {}: {}", peer, last_system_error());
        refuse_after(begin, {peer});
        std::this_thread::sleep_for(1ms);
      }
      const int mine = rank();
      if (::send(socket.get(), &mine, sizeof mine, MSG_NOSIGNAL) != sizeof mine) throw_ended(peer);
      sockets_[static_cast<std::size_t>(peer)] = std::move(socket);
    }
    for (int more = rank() + 1; more < size(); ++more) {
      pollfd ready{.fd = door.get(), .events = POLLIN, .revents = 0};
      while (::poll(&ready, 1, 1000) <= 0) refuse_after(begin, {more});
      Socket socket(uninterrupted([&] { return ::accept4(door.get(), nullptr, nullptr, SOCK_CLOEXEC); }));
      const timeval longest{.tv_sec = static_cast<time_t>(std::ceil(place_->timeout)), .tv_usec = 0};
      ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
      int peer = -1;
      const auto receive = [&] { return ::recv(socket.get(), &peer, sizeof peer, MSG_WAITALL); };
      if (uninterrupted(receive) != sizeof peer || peer <= rank() || peer >= size())
        fail("ranks: a process that is none of them has opened {}", own.sun_path);
      sockets_[static_cast<std::size_t>(peer)] = std::move(socket);
    }
    ::unlink(own.sun_path);
  }

  void run(std::vector<Transfer> transfers) const {
    Clock::time_point begin = Clock::now();  // of the wait
    for (;;) {
      std::erase_if(transfers, [](const Transfer& one) { return one.done(); });
      if (transfers.empty()) return;
      std::vector<pollfd> ready;
      for (const Transfer& one : transfers) {
        const short wanted = static_cast<short>((one.send.empty() ? 0 : POLLOUT) | (one.receive.empty() ? 0 : POLLIN));
        ready.push_back({.fd = socket_of(one.peer), .events = wanted, .revents = 0});
      }
      if (::poll(ready.data(), ready.size(), 1000) <= 0) {
        std::vector<int> late;
        for (const Transfer& one : transfers) late.push_back(one.peer);
        refuse_after(begin, late);
        continue;
      }
      for (std::size_t i = 0; i < transfers.size(); ++i) {
        Transfer& one = transfers[i];
        const int events = ready[i].revents;
        if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && !one.receive.empty())
          one.receive = one.receive.subspan(moved(
              one.peer, ::recv(socket_of(one.peer), one.receive.data(), one.receive.size(), MSG_DONTWAIT), begin));
        if ((events & (POLLOUT | POLLERR)) != 0 && !one.send.empty())
          one.send = one.send.subspan(
              moved(one.peer,
                    ::send(socket_of(one.peer), one.send.data(), one.send.size(), MSG_DONTWAIT | MSG_NOSIGNAL), begin));
      }
    }
  }
  int socket_of(int peer) const { return sockets_[static_cast<std::size_t>(peer)].get(); }
  std::size_t moved(int peer, ssize_t bytes, Clock::time_point& begin) const {
    if (bytes > 0) {
      begin = Clock::now();
      return static_cast<std::size_t>(bytes);
    }
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    throw_ended(peer);
  }
  [[noreturn]] void throw_ended(int peer) const {
    place_->lost_one = true;
    fail("rank {} has ended{}", peer, during());
  }
  void refuse_after(Clock::time_point begin, const std::vector<int>& late) const {
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    if (waited > place_->timeout)
      fail("rank {} takes no part, and rank {} has waited for it for {:.0f} s (--rank-timeout){}", late.front(), rank(),
           waited, during());
  }
  std::string during() const { return operation_.empty() ? "" : fmt::format(" (operation: {})", operation_); }

  std::shared_ptr<Place> place_;
  std::vector<Socket> sockets_;  // by rank; none to this one
  std::string operation_;
};

}  // namespace

std::unique_ptr<Communicator> join_local_ranks(const std::filesystem::path& folder, int rank, int size,
                                               double timeout) {
  return std::make_unique<LocalRanks>(std::make_shared<Place>(Place{folder, rank, size, timeout}));
}

}  // namespace lacuna
