// ALiBi as transformers' Falcon adds it: https://github.com/huggingface/transformers, build_alibi_tensor.
#pragma once

#include "core/number.h"

#include <cstdint>

namespace lacuna {

/// bf16(slope · bf16(key)), key: a position in its sequence.
LACUNA_HOST_DEVICE inline float rounded_alibi(float slope, std::int64_t key) {
  return static_cast<float>(bf16(slope * static_cast<float>(bf16(static_cast<float>(key)))));
}

}  // namespace lacuna
