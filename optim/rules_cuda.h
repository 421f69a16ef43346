// Updates of optimizers on cuda, of all parameters by a few kernels. optim/rules.cu instantiates them for each rule
// that optim/rules.h registers.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "optim/chunks.h"
#include "optim/rate.h"
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

/// The entry of a parameter.
struct UpdatedParameter {
  void* parameter;  // [count], f32 or bf16
  DType parameter_type;
  bf16* compensation;  // [count]: what rounding to bf16 lost of the parameter; may be null
  void* gradient;      // [count], f32 or bf16
  DType gradient_type;
  std::int64_t count, first_chunk;
  StoredState states[most_states];
  std::int64_t* step;  // []: goes up by one
  Rate rate;
  std::uint32_t site;  // of the draws that round states
};

struct UpdatesOnCuda {
  Table<UpdatedParameter> parameters;
  const float* factor;         // [], of each gradient; null: 1
  float limit;                 // of each element's magnitude, after the factor
  const std::int32_t* finite;  // []: nothing happens if it is 0; null: 1
  double* updates;             // []: goes up by the number of parameters; may be null
  const double* rate;          // [], times each learning rate; null: 1
  std::uint64_t seed;          // of the draws that round states
  std::byte* begun;            // [parameters, bytes_of_begun], workspace
};

/// The rates of a parameter in this step.
LACUNA_DEVICE inline Rate rate_of(const UpdatesOnCuda& what, const UpdatedParameter& parameter) {
  return {what.rate == nullptr ? parameter.rate.lr : *what.rate * parameter.rate.lr, parameter.rate.weight_decay};
}

template <class Rule>
void update(Stream stream, const Rule& rule, const UpdatesOnCuda& what);

}  // namespace lacuna::cuda
