// Bounds on what OpenMP does with this process.
#pragma once

namespace lacuna {

/// Upper limit of compute threads.
inline constexpr int max_threads = 4096;

/// Lets the calling thread run on all processors of the process. OpenMP binds the first thread to one place
/// (OMP_PROC_BIND, OMP_PLACES), and threads and processes that it starts inherit that. Does nothing where threads are
/// not bound; may be called between fork and exec.
void leave_place();

}  // namespace lacuna
