// Updates of optimizers on cuda. Each rule (optim/rules.h) is instantiated by the .cu file of its optimizer
// (optim/update_kernels.h); one that is missing there fails to link.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "optim/rules.h"
#include "optim/state_values.h"

#include <cstddef>
#include <cstdint>

namespace lacuna::cuda {

inline constexpr int most_states = 4;
inline constexpr std::size_t bytes_of_begun = 128;  // of a workspace that holds the scalars of an update

struct StoredState {
  void* values;  // f32 or bf16 [count]; or u8: codes [count], then the ranges of their blocks [blocks, 4]
  StatePrecision precision;
  StateValues kind;
};

struct UpdateOnCuda {
  float* parameter;  // [count]
  void* gradient;    // [count], f32 or bf16
  DType gradient_type;
  std::int64_t count;
  StoredState states[most_states];
  std::int64_t* step;          // []: goes up by one
  const float* factor;         // [], of each gradient; null: 1
  float limit;                 // of each element's magnitude, after the factor
  const std::int32_t* finite;  // []: nothing happens if it is 0; null: 1
  std::int64_t* updates;       // []: goes up by one; may be null
  std::uint64_t seed;          // of the draws that round states
  std::uint32_t site;
  void* begun;  // workspace
};

template <class Rule>
void update(Stream stream, const Rule& rule, const UpdateOnCuda& what);

}  // namespace lacuna::cuda
