#include "core/parallel.h"

#include <omp.h>

#include <fstream>

namespace lacuna {
namespace {

/// OMP_NUM_THREADS, or else the number of processors.
int usual() {
  static const int count = omp_get_max_threads();
  return count;
}

int& chosen() {
  static int count = usual();
  return count;
}

}  // namespace

void set_threads(int count) {
  expect(count >= 0, "threads: expected 0 (all) or more, got {}", count);
  chosen() = count == 0 ? usual() : count;
  omp_set_num_threads(chosen());
}

ThreadCountScope::ThreadCountScope(int count) : outer_(chosen()) { set_threads(count); }
ThreadCountScope::~ThreadCountScope() { set_threads(outer_); }

int processors() { return omp_get_num_procs(); }

std::string processor_model() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return "unknown";
}

int threads() { return omp_in_parallel() != 0 ? 1 : chosen(); }

}  // namespace lacuna
