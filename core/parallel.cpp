#include "core/parallel.h"

#include <omp.h>

namespace lacuna {
namespace {

int& chosen() {
  static int count = omp_get_max_threads();
  return count;
}

}  // namespace

void set_threads(int count) {
  expect(count >= 0, "threads: expected 0 (all) or more, got {}", count);
  chosen() = count == 0 ? omp_get_num_procs() : count;
  omp_set_num_threads(chosen());
}

int threads() { return chosen(); }

}  // namespace lacuna
