// A GPU's memory and L2 cache, by which work is divided.
#pragma once

#include <cstdint>
#include <optional>

namespace lacuna {

/// Memory is in bytes. The defaults are those of a card that nobody named.
struct Card {
  std::int64_t memory = std::int64_t{8} << 30;  // in all
  std::int64_t cache = std::int64_t{48} << 20;  // L2
  int compute_capability = 90;                  // 89: 8.9
  std::optional<int> device{};                  // its number here; nothing: it is described
};

}  // namespace lacuna
