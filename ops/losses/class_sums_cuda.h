// Launchers of ops/losses/class_sums.cu. The kernels are described in ops/losses/class_sums.h.
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

struct ClassRows {
  const std::int64_t* labels;  // [rows]
  float* sums;                 // [4, rows]
  std::int64_t rows, classes, ignored;
  double label_smoothing, soft_cap;
};

struct AbsorbedClasses {
  float* logits;  // [rows, count]
  std::int64_t first, count;
  bool gradient;
  float* running;  // [rows, width], or null
  std::int64_t width;
};
void absorb_classes(Stream stream, const ClassRows& rows, const AbsorbedClasses& classes);

struct LabelRows {
  const std::int64_t* labels;  // [rows]
  const void* weight;          // [count, width] of a type
  float* to;                   // [rows, width]
  std::int64_t rows, first, count, width;
};
void take_label_rows(Stream stream, DType type, const LabelRows& what);

/// sum[0] += Σ losses.
void add_class_losses(Stream stream, const ClassRows& rows, double* sum);

struct ClassGradient {
  const float* scale;                // [1]
  const float *running, *of_labels;  // [rows, width]
  void* to;                          // [rows, width] of a type
  std::int64_t width;
};
void class_gradient(Stream stream, DType type, const ClassRows& rows, const ClassGradient& what);

}  // namespace lacuna::cuda
