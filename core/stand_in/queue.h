// Streams of the stand-in. Work runs at once, or when the host waits for it (fibers.h: ScheduleScope).
#pragma once

#include "core/stream.h"

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

/// A stream. Delayed work reads memory as the host has written it by then, so a missing wait shows up in tests.
struct CUstream_st {
  std::mutex mutex;
  std::deque<std::function<void()>> work;
  std::optional<std::vector<std::function<void()>>> captured;  // engaged during a capture
  CUstream_st* joins = nullptr;  // the stream with whose work its own is captured, since it waits for that
  bool is_joined = true;         // whether that stream waits for what was captured of this one
};

namespace lacuna::cuda::stand_in {

/// Whether the schedule delays the work of streams.
bool runs_late();

/// The stream in whose capture the work of `stream` goes; null: it is not captured.
Stream captures(Stream stream);

void enqueue(Stream stream, std::function<void()> work);
/// Runs all queued work. Rethrows an exception of the work and drops the rest. Throws Error during a capture.
void synchronize(Stream stream);

}  // namespace lacuna::cuda::stand_in
