// Launchers of ops/losses/pixel_loss.cu.
#pragma once

#include "core/number.h"
#include "core/stream.h"
#include "ops/shapes/resize_axis.h"

#include <cstdint>

namespace lacuna::cuda {

/// Pixels of resized logits, and their labels.
struct LabelledPixels {
  const void* logits;              // [images, down.extent, across.extent, classes]
  const std::uint8_t* labels_u8;   // [pixels], or null:
  const std::int64_t* labels_i64;  // [pixels]
  const float* weights;            // [classes]; null: all 1
  ResampledAxis down, across;
  std::int64_t images, classes, ignored;
  float label_smoothing;
  LACUNA_HOST_DEVICE std::int64_t pixels() const { return images * down.out * across.out; }
};

/// Weighted losses of pixels, their weights and log Σ e^z, each [pixels]; the class of the largest logit in
/// `predictions_u8` or `predictions_i32`.
struct PixelLosses {
  float *losses, *weights, *log_sums;
  std::uint8_t* predictions_u8;
  std::int32_t* predictions_i32;
};
void pixel_losses(Stream stream, DType type, const LabelledPixels& pixels, const PixelLosses& to);
/// Predictions alone, of pixels without labels.
void predict_pixels(Stream stream, DType type, const LabelledPixels& pixels, const PixelLosses& to);

/// Per run of `run` pixels, Σ p t, Σ (p + t) and Σ t of each class: partial [runs, 3 classes].
void pixel_class_sums(Stream stream, DType type, const LabelledPixels& pixels, const float* log_sums, std::int64_t run,
                      float* partial);

/// loss and Σ w of two sums, and Dice of class sums [3, classes].
struct FinishedPixelLoss {
  const float *loss_sum, *weight_sum;  // [1]
  float* sums;                         // [1 + 3 classes], whose first is set
  float* loss;                         // [1]
  std::int64_t classes;
  float cross_entropy, dice;
};
void finish_pixel_loss(Stream stream, const FinishedPixelLoss& what);

struct PixelGradients {
  const float *sums, *upstream;  // [1 + 3 classes], [1]
  float cross_entropy, dice;
  float *log_sums, *means;  // [pixels] each, scratch: log Σ e^z, and Σ p · (slope of Dice)
  void* dlogits;            // as logits
};
void pixel_gradients(Stream stream, DType type, const LabelledPixels& pixels, const PixelGradients& what);

}  // namespace lacuna::cuda
