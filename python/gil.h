// Python's lock and signals while C++ works.
#pragma once

#include <nanobind/nanobind.h>

#include <csignal>

namespace lacuna::python {

/// While it lives, C++ works: other Python threads may run, and this thread and those that it starts take no signal,
/// since oneDNN's kernels use the stack pointer as an ordinary register. A signal that comes meanwhile waits.
class CppScope {
 public:
  CppScope() {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) ::sigdelset(&all, fault);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~CppScope() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  CppScope(const CppScope&) = delete;
  CppScope& operator=(const CppScope&) = delete;

 private:
  sigset_t before_{};
  nanobind::gil_scoped_release released_;
};

/// While it lives, C++ has called Python: the lock is held, and signals arrive as in any Python code.
class PythonScope {
 public:
  PythonScope() {
    sigset_t none;
    ::sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, &before_);
  }
  ~PythonScope() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  PythonScope(const PythonScope&) = delete;
  PythonScope& operator=(const PythonScope&) = delete;

 private:
  sigset_t before_{};
  nanobind::gil_scoped_acquire acquired_;
};

}  // namespace lacuna::python
