// Signals that ask a run to stop: it finishes the step it is in, saves, and ends.
#pragma once

#include <csignal>
#include <thread>

namespace lacuna::apps {

/// While it lives, SIGINT, SIGTERM and SIGHUP are noted instead of ending the process, as are SIGUSR1, SIGUSR2 and
/// SIGXCPU, by which batch systems tell that the time is almost over; those that were ignored before stay so. A second
/// SIGINT, SIGTERM or SIGHUP ends it at once, unless it is SIGTERM or SIGHUP again within a second.
///
/// A thread of its own takes them; they are blocked in the one that makes the guard and in all that come after it. No
/// handler may run on a thread that computes: oneDNN's generated matrix kernels use the stack pointer as an ordinary
/// register, and the kernel would write the signal's frame where it points. Make it before any thread computes.
///
/// The signals of a host stay its own: the guard does nothing there, and the host says whether to stop.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The signal that came, or 0; SIGINT where a host wants to stop.
  static int signal();

 private:
  sigset_t blocked_before_{};
  int wake_ = -1;  // an event that ends the waiting
  std::thread waiting_;
};

}  // namespace lacuna::apps
