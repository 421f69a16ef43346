// A GPU's memory and L2 cache, by which work is divided.
#pragma once

#include <cstdint>

namespace lacuna {

/// In bytes. The defaults are those of a card that nobody named.
struct Card {
  std::int64_t memory = std::int64_t{8} << 30;  // in all
  std::int64_t cache = std::int64_t{48} << 20;  // L2
};

}  // namespace lacuna
