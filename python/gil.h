// Python's lock and signals while C++ works.
#pragma once

#include <nanobind/nanobind.h>

#include <csignal>
#include <mutex>

namespace lacuna::python {

/// The turn of this thread among those that call Lacuna: they share the number of threads and the ledger. Signals
/// arrive while it waits. Threads that a command started, and that have called Python, work in the turn of the command:
/// their lock owns nothing.
std::unique_lock<std::recursive_timed_mutex> turn();

/// While it lives, C++ works in the turn of this thread: other Python threads may run, and this thread and those that
/// it starts take no signal, since oneDNN's kernels use the stack pointer as an ordinary register. A signal that comes
/// meanwhile waits.
class CppScope {
 public:
  CppScope() : outer_(innermost_) {
    innermost_ = this;
    sigset_t all;
    ::sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) ::sigdelset(&all, fault);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~CppScope() {
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    innermost_ = outer_;
  }
  CppScope(const CppScope&) = delete;
  CppScope& operator=(const CppScope&) = delete;

  /// The signals that Python code of this thread does not take; none in threads that a command started.
  static sigset_t blocked_in_python() {
    sigset_t none;
    ::sigemptyset(&none);
    return innermost_ == nullptr ? none : innermost_->before_;
  }

 private:
  static inline thread_local CppScope* innermost_ = nullptr;
  std::unique_lock<std::recursive_timed_mutex> turn_ = turn();
  CppScope* outer_;
  sigset_t before_{};
  nanobind::gil_scoped_release released_;
};

/// While it lives, C++ has called Python: the lock is held, and signals arrive as in any Python code.
class PythonScope {
 public:
  PythonScope() {
    const sigset_t blocked = CppScope::blocked_in_python();
    ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
    ++open_;
  }
  ~PythonScope() {
    --open_;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  PythonScope(const PythonScope&) = delete;
  PythonScope& operator=(const PythonScope&) = delete;

  /// Whether a command called the Python code of this thread.
  static bool is_open() { return open_ > 0; }

 private:
  static inline thread_local int open_ = 0;
  sigset_t before_{};
  nanobind::gil_scoped_acquire acquired_;
};

}  // namespace lacuna::python
