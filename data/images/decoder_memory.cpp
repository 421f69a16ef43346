#include "data/images/decoder_memory.h"

#include "core/system_memory.h"
#include "data/sample.h"

#include <malloc.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace lacuna {
namespace {

struct Share {
  std::mutex mutex{};
  std::condition_variable released{};
  std::int64_t limit = 0, bytes = 0, peak = 0;
  std::int64_t tickets = 0, turn = 0;  // a large picture would wait for ever beside small ones without an order
};

Share& held_by_decoders() {
  static Share held;
  return held;
}

constexpr std::int64_t worth_a_look = std::int64_t{64} << 20;

}  // namespace

DecoderMemory::DecoderMemory(std::int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  Share& held = held_by_decoders();
  std::unique_lock lock(held.mutex);
  if (held.limit == 0) held.limit = std::max(available_memory() / 4, worth_a_look);
  const std::int64_t ticket = held.tickets++;
  held.released.wait(lock,
                     [&] { return held.turn == ticket && (held.bytes == 0 || held.bytes + bytes <= held.limit); });
  ++held.turn;
  held.released.notify_all();
  if (bytes > worth_a_look)
    if (const std::int64_t left = available_memory(); bytes > left)
      reject_sample(
          "decoding takes {} MiB, and {} MiB are left: as baseline JPEG or non-interlaced PNG it takes a few rows",
          bytes >> 20, left >> 20);
  held.bytes += bytes;
  held.peak = std::max(held.peak, held.bytes);
}

DecoderMemory::~DecoderMemory() {
  if (bytes_ == 0) return;
  Share& held = held_by_decoders();
  {
    const std::scoped_lock lock(held.mutex);
    held.bytes -= bytes_;
  }
  held.released.notify_all();
}

void set_decoder_limit(std::int64_t bytes) {
#ifdef __GLIBC__
  // Large blocks go back to the system at once: each thread's arena would keep those of up to 32 MiB.
  if (bytes > 0) mallopt(M_MMAP_THRESHOLD, 4 << 20);
#endif
  Share& held = held_by_decoders();
  const std::scoped_lock lock(held.mutex);
  held.limit = bytes;
}

std::int64_t decoder_peak() {
  Share& held = held_by_decoders();
  const std::scoped_lock lock(held.mutex);
  return held.peak;
}

}  // namespace lacuna
