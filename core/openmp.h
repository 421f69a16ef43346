// Limits on OpenMP's threads and their placement.
#pragma once

namespace lacuna {

/// Upper limit of compute threads.
inline constexpr int max_threads = 4096;

/// Lets the calling thread run on all processors of the process. OpenMP may bind the first thread to one place
/// (OMP_PROC_BIND, OMP_PLACES), and threads and processes it starts inherit the binding. Does nothing if threads are
/// not bound. Safe to call between fork and exec.
void leave_place();

}  // namespace lacuna
