// Kernels of ops/cuda/loss_terms.h, for .cu files.
#pragma once

#include "ops/cuda/elements.h"
#include "ops/cuda/loss_terms.h"

namespace lacuna::cuda {

/// Weights of eight elements.
class ClassWeights {
 public:
  explicit ClassWeights(const LossTerms& of) : weights_(of.weights), classes_(of.classes) {}
  LACUNA_DEVICE Eight at(std::int64_t first) const {
    Eight eight;
    std::int64_t place = first % classes_;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      eight[i] = weights_ == nullptr ? 1.0F : weights_[place];
      if (++place == classes_) place = 0;
    }
    return eight;
  }

 private:
  const float* weights_;
  std::int64_t classes_;
};

template <class T, class Terms>
struct SumTerms {
  static constexpr int threads = 128;
  struct Shared {
    float sums[threads / warp_size];
  };
  Kept<T> predictions;
  Kept<float> targets;
  ClassWeights weights;
  std::int64_t count;
  double* partial;
  LACUNA_DEVICE void operator()(const Block<SumTerms>& block) const {
    const std::int64_t begin = block.index() * terms_together;
    float sum = 0;
    for (std::int64_t first = begin + block.thread() * 8; first < begin + terms_together; first += threads * 8) {
      const Eight prediction = predictions.at(first), target = targets.at(first), weight = weights.at(first);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (first + i < count) sum += Terms{}.loss(prediction[i], target[i], weight[i]);
    }
    sum = joined_of_block(block, sum, block.shared().sums, Plus{});
    if (block.thread() == 0) partial[block.index()] = static_cast<double>(sum);
  }
};

template <class T, class Terms>
struct SpreadTerms {
  static constexpr int threads = 256;
  Kept<T> predictions;
  Kept<float> targets;
  ClassWeights weights;
  Written<T> gradient;
  const float* dy;
  float factor;
  std::int64_t count;
  LACUNA_DEVICE void operator()(const Block<SpreadTerms>& block) const {
    const std::int64_t first = block.global_thread() * 8;
    if (first >= count) return;
    const Eight prediction = predictions.at(first), target = targets.at(first), weight = weights.at(first);
    const float scale = *dy * factor;
    Eight out;
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = scale * Terms{}.slope(prediction[i], target[i], weight[i]);
    gradient.set(first, out);
  }
};

template <class Terms>
void sum_terms(Stream stream, DType type, const LossTerms& of, double* partial) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(of.count, terms_together),
        SumTerms<T, Terms>{{of.predictions, of.count}, {of.targets, of.count}, ClassWeights(of), of.count, partial});
  });
}

template <class Terms>
void spread_terms(Stream stream, DType type, const LossTerms& of, const float* dy, float factor, void* gradient) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(of.count, SpreadTerms<T, Terms>::threads * 8),
        SpreadTerms<T, Terms>{{of.predictions, of.count},
                              {of.targets, of.count},
                              ClassWeights(of),
                              {gradient, of.count},
                              dy,
                              factor,
                              of.count});
  });
}

}  // namespace lacuna::cuda
