// The streams of the stand-in: work is done at once, or when the host waits for it (fibers.h: ScheduleScope).
#pragma once

#include "core/stream.h"

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

/// A stream. Work that is queued late sees what the host has written by then: a wait that is missing shows.
struct CUstream_st {
  std::mutex mutex;
  std::deque<std::function<void()>> work;
  std::optional<std::vector<std::function<void()>>> captured;  // while its work is
};

namespace lacuna::cuda::stand_in {

/// Whether the schedule lets streams run late.
bool runs_late();

void enqueue(Stream stream, std::function<void()> work);
/// Does all work that is queued. Throws what it throws, and drops the rest; and Error while work is captured.
void synchronize(Stream stream);

}  // namespace lacuna::cuda::stand_in
