// Signals that ask a run to stop: it finishes the step it is in, saves, and ends.
#pragma once

namespace lacuna::apps {

/// While it lives, SIGINT and SIGTERM are noted instead of ending the process. A second one ends it at once.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The signal that came, or 0.
  static int signal();
};

}  // namespace lacuna::apps
