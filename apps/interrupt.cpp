#include "apps/interrupt.h"

#include <csignal>
#include <initializer_list>

namespace lacuna::apps {
namespace {

volatile std::sig_atomic_t received = 0;

void note(int signal) {
  if (received != 0) {  // whichever of the two came first
    ::signal(signal, SIG_DFL);
    ::raise(signal);  // delivered when this handler returns
  }
  received = signal;
}

void handle_with(void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  received = 0;
  handle_with(note, SA_RESTART);
}
InterruptGuard::~InterruptGuard() { handle_with(SIG_DFL, 0); }

int InterruptGuard::signal() { return received; }

}  // namespace lacuna::apps
