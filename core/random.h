// Counter-based random numbers. A draw is a function of (seed, step, site, element) only, so recomputed and resumed
// steps get the same numbers, in any order of evaluation.
#pragma once

#include "core/host_device.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace lacuna {

/// Four independent 32-bit draws. Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC
/// 2011).
LACUNA_HOST_DEVICE constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                                 std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

/// A stream of draws. Ops store it for backward instead of a mask.
struct RandomStream {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t site = 0;          // hash of the consumer's path
  std::uint32_t first_sample = 0;  // see RandomState
  const std::uint32_t* clock = nullptr;

  /// The stream that a kernel draws from, with the step read from `clock`.
  LACUNA_HOST_DEVICE constexpr RandomStream now() const {
    return {seed, clock == nullptr ? step : *clock, site, first_sample};
  }
  /// Draws 4·block to 4·block + 3.
  LACUNA_HOST_DEVICE constexpr std::array<std::uint32_t, 4> draw(std::uint64_t block) const {
    return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), step, site},
                  {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  }
  /// Draws 4·block to 4·block + 3 for entry `sample` of a tensor's batch axis. They depend on the sample's number in
  /// the global batch, not on the split of the batch into micro-batches or over ranks.
  LACUNA_HOST_DEVICE constexpr std::array<std::uint32_t, 4> draw_of_sample(std::uint64_t sample,
                                                                           std::uint32_t block) const {
    return draw((first_sample + sample) << 32 | block);
  }
  constexpr std::uint32_t bits(std::uint64_t element) const { return draw(element / 4)[element % 4]; }
  /// Uniform in [0, 1), 24 bits.
  constexpr float uniform(std::uint64_t element) const { return static_cast<float>(bits(element) >> 8) * 0x1p-24F; }
  /// An integer in [0, bound).
  constexpr std::uint32_t below(std::uint64_t element, std::uint32_t bound) const {
    return static_cast<std::uint32_t>((std::uint64_t{bits(element)} * bound) >> 32);
  }

  bool operator==(const RandomStream&) const = default;
};

/// Site number of a named consumer (FNV-1a).
constexpr std::uint32_t random_site(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

/// The thread-local state from which random ops draw. The training step sets it with a RandomStateScope.
struct RandomState {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t first_sample = 0;  // the first local sample's number in the global batch
  // The step as a device scalar [], used in place of `step` in a captured step (core/device_graph.h); null: `step` is
  // used.
  const std::uint32_t* clock = nullptr;
  bool operator==(const RandomState&) const = default;
};
const RandomState& random_state();

/// Sets the random state of this thread and restores the previous one on destruction.
class RandomStateScope {
 public:
  explicit RandomStateScope(const RandomState& state);
  ~RandomStateScope();
  RandomStateScope(const RandomStateScope&) = delete;
  RandomStateScope& operator=(const RandomStateScope&) = delete;

 private:
  RandomState outer_;
};

/// The stream of the consumer at `path` in the current step.
inline RandomStream random_stream(std::string_view path) {
  const RandomState& state = random_state();
  return {state.seed, state.step, random_site(path), state.first_sample, state.clock};
}

}  // namespace lacuna
