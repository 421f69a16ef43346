// Elementwise passes on cuda. Each formula is instantiated by the .cu file of its op (ops/cuda/map_kernels.h); one that
// is missing there fails to link.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/cuda/saved_values.h"

#include <cstdint>

namespace lacuna::cuda {

/// y[i] = formula(x[i]). x, y: [count] of `type`; y may be x.
template <class Formula>
void map(Stream stream, DType type, std::int64_t count, const Formula& formula, const void* x, void* y);

/// y[i] = formula(a[i], b[i]). a, b, y: [count] of `type`; y may be a or b.
template <class Formula>
void map(Stream stream, DType type, std::int64_t count, const Formula& formula, const void* a, const void* b, void* y);

/// y[i] = formula(a[i], saved[i]).
template <class Formula>
void map_saved(Stream stream, DType type, std::int64_t count, const Formula& formula, const void* a,
               const SavedValues& saved, void* y);

/// y[i] = formula(x[i]). y: [x.count].
template <class Formula>
void map_coded(Stream stream, DType type, const CodedRange& x, const Formula& formula, void* y);

}  // namespace lacuna::cuda
