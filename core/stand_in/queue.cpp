#include "core/stand_in/queue.h"

#include "core/stream.h"

#include <utility>

namespace lacuna::cuda::stand_in {

Stream captures(Stream stream) {
  if (stream->joins != nullptr) return stream->joins;
  const std::lock_guard lock(stream->mutex);
  return stream->captured ? stream : nullptr;
}

void enqueue(Stream stream, std::function<void()> work) {
  if (stream->joins != nullptr) {
    stream->is_joined = false;
    stream = stream->joins;
  }
  {
    const std::lock_guard lock(stream->mutex);
    if (stream->captured) return stream->captured->push_back(std::move(work));
    stream->work.push_back(std::move(work));
  }
  if (!runs_late()) synchronize(stream);
}

void synchronize(Stream stream) {
  if (stream->joins != nullptr) throw_waits_while_captured();
  const std::lock_guard lock(stream->mutex);
  if (stream->captured) throw_waits_while_captured();
  std::deque<std::function<void()>> work = std::exchange(stream->work, {});
  for (; !work.empty(); work.pop_front()) work.front()();
}

}  // namespace lacuna::cuda::stand_in
