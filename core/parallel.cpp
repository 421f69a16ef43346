#include "core/parallel.h"

#include "core/openmp.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <vector>

namespace lacuna {
namespace {

/// The number of threads that OpenMP starts if `count` are requested.
int team_size(int count) {
  int size = 1;
#pragma omp parallel num_threads(count)
#pragma omp single
  size = omp_get_num_threads();
  return size;
}

/// `count`, or the number of threads OpenMP starts if fewer. A count that once succeeded is not tested again; after a
/// shortage, which may be temporary, the next call tests again.
int limited(int count) {
  static int most = 1;                                        // the largest team that has run
  if (count <= most || omp_in_parallel() != 0) return count;  // a nested team says nothing about the outer one
  const int size = team_size(count);
  most = std::max(most, size);
  return size;
}

/// Disables OpenMP settings that would give the calling thread's teams fewer threads: dynamic teams, and a maximum of 0
/// active levels.
void ask_for_whole_teams() {
  if (omp_get_dynamic() != 0) omp_set_dynamic(0);
  if (omp_get_max_active_levels() < 1) omp_set_max_active_levels(1);
}

void use(int count) {
  if (omp_get_max_threads() != count) omp_set_num_threads(count);
}

const int at_start = omp_get_max_threads();

/// The default number of threads: OMP_NUM_THREADS, or the number of processors.
int usual() {
  if (at_start > max_threads) reject("OMP_NUM_THREADS: expected 1 to {}, got {}", max_threads, at_start);
  return at_start;
}

std::atomic<int> chosen = 0;  // 0: not set yet

int chosen_or_usual() {
  if (chosen == 0) set_threads(0);
  return chosen;
}

/// The processors of all OpenMP places; empty if threads are not bound.
cpu_set_t processors_of_places() {
  cpu_set_t all;
  CPU_ZERO(&all);
  if (omp_get_proc_bind() == omp_proc_bind_false) return all;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> ids(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, ids.data());
    for (const int id : ids) CPU_SET(id, &all);
  }
  return all;
}

const cpu_set_t all_places = processors_of_places();

}  // namespace

void set_threads(int count) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  expect(count >= 0 && count <= max_threads, "threads: expected 0 (all) to {}, got {}", max_threads, count);
  ask_for_whole_teams();
  chosen = limited(count == 0 ? usual() : count);
  use(chosen);
}

ThreadCountScope::ThreadCountScope(int count) : outer_(chosen) { set_threads(count); }
ThreadCountScope::~ThreadCountScope() {
  if (outer_ > 0)
    set_threads(outer_);
  else
    chosen = 0;
}

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

void leave_place() {
  if (CPU_COUNT(&all_places) > 0) ::sched_setaffinity(0, sizeof all_places, &all_places);
}

int threads() {
  if (omp_in_parallel() != 0) {
    use(1);
    return 1;
  }
  const int count = chosen_or_usual();
  ask_for_whole_teams();
  use(count);
  return count;
}

}  // namespace lacuna
