#include "core/parallel.h"

#include <omp.h>

namespace lacuna {
namespace {

/// What OMP_NUM_THREADS says, or else the processors.
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

int processors() { return omp_get_num_procs(); }

int threads() { return omp_in_parallel() != 0 ? 1 : chosen(); }

}  // namespace lacuna
