// Launchers of optim/adafactor.cu.
#pragma once

#include "core/stream.h"
#include "optim/rules.h"

#include <cstdint>

namespace lacuna::cuda {

/// `count` matrices [rows, columns] and their factored second moments.
struct FactoredMomentsOnCuda {
  float* gradient;  // [count, rows, columns]
  float* row;       // [count, rows]
  float* column;    // [count, columns]
  float* means;     // [count]
  std::int64_t count, rows, columns;
};
/// step: []; finite: [], nothing happens if it is 0; null: 1.
void update_factored_moments(Stream stream, const AdafactorSettings& settings, const std::int64_t* step,
                             const std::int32_t* finite, const FactoredMomentsOnCuda& what);
void divide_by_factored_moments(Stream stream, const FactoredMomentsOnCuda& what);

}  // namespace lacuna::cuda
