#include "apps/train/interrupt.h"

#include "apps/output/host.h"
#include "core/error.h"
#include "core/system_error.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <system_error>
#include <utility>

namespace lacuna::apps {
namespace {

std::atomic<int> received = 0;

sigset_t asking_to_stop() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    // Ignored by nohup, to outlive the terminal, or by a shell that starts a process in the background.
    if (before.sa_handler != SIG_IGN) ::sigaddset(&set, signal);
  }
  return set;
}

/// Whether a batch system sends it ahead of the end, perhaps again and again.
bool is_notice(int signal) { return signal == SIGUSR1 || signal == SIGUSR2 || signal == SIGXCPU; }

int opened(int descriptor, const char* what) {
  if (descriptor < 0) fail("cannot open {}: {}", what, last_system_error());
  return descriptor;
}

/// Whether a signal is the one before it, sent twice: `timeout` and batch systems send theirs to the process and to its
/// group. Somebody who presses Ctrl-C again means it.
class Repetition {
 public:
  bool operator()(int signal) {
    using Clock = std::chrono::steady_clock;
    const auto now = Clock::now();
    if (signal == last_ && signal != SIGINT && now - at_ < std::chrono::seconds(1)) return true;
    last_ = signal;
    at_ = now;
    return false;
  }

 private:
  int last_ = 0;
  std::chrono::steady_clock::time_point at_;
};

void wait_for_signals(int signals, int wake) {
  Repetition is_repetition;
  bool asked = false;  // by a signal that is no notice
  std::array<pollfd, 2> ready{pollfd{.fd = signals, .events = POLLIN, .revents = 0},
                              pollfd{.fd = wake, .events = POLLIN, .revents = 0}};
  while (ready[1].revents == 0) {
    if (::poll(ready.data(), ready.size(), -1) < 0 || ready[0].revents == 0) continue;
    signalfd_siginfo information{};
    if (::read(signals, &information, sizeof information) != sizeof information) continue;
    const int signal = static_cast<int>(information.ssi_signo);
    int none = 0;
    received.compare_exchange_strong(none, signal);
    if (is_notice(signal) || is_repetition(signal) || !std::exchange(asked, true)) continue;
    ::signal(signal, SIG_DFL);  // the second, whichever came first
    const sigset_t set = asking_to_stop();
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    ::raise(signal);
  }
  ::close(signals);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  if (command_host() != nullptr) return;
  wake_ = opened(::eventfd(0, EFD_CLOEXEC), "an event");
  received = 0;
  const sigset_t set = asking_to_stop();
  const int signals = opened(::signalfd(-1, &set, SFD_CLOEXEC), "a descriptor for signals");
  ::pthread_sigmask(SIG_BLOCK, &set, &blocked_before_);
  try {
    waiting_ = std::thread(wait_for_signals, signals, wake_);
  } catch (const std::system_error& error) {
    ::close(signals);
    ::close(wake_);
    ::pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr);
    fail(
        "out of memory: cannot start the thread that waits for signals: {}: a limit on the address space (ulimit -v) "
        "or on processes (ulimit -u) is too low",
        error.code().message());
  }
}

InterruptGuard::~InterruptGuard() {
  if (!waiting_.joinable()) return;
  ::eventfd_write(wake_, 1);
  waiting_.join();
  ::close(wake_);
  ::pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr);
}

int InterruptGuard::signal() {
  if (command_host() != nullptr) return command_host()->wants_to_stop() ? SIGINT : 0;
  return received;
}

}  // namespace lacuna::apps
