// Losses of detection: a thread has elements, and sums of blocks go to memory.
#include "ops/detection/box_losses_cuda.h"

#include "core/block.h"
#include "ops/detection/box_loss_formulas.h"

namespace lacuna::cuda {
namespace {

constexpr int loss_threads = 128;
struct LossSums {
  float sums[loss_threads / warp_size];
};

/// Sums what.term(i) over the block's elements.
template <class What>
struct SumLosses {
  static constexpr int threads = loss_threads;
  using Shared = LossSums;
  What what;
  std::int64_t count;
  double* partial;

  LACUNA_DEVICE void operator()(const Block<SumLosses>& block) const {
    const std::int64_t begin = block.index() * losses_together;
    float sum = 0;
    for (std::int64_t i = begin + block.thread(); i < begin + losses_together && i < count; i += threads)
      sum += what.term(i);
    sum = joined_of_block(block, sum, block.shared().sums, Plus{});
    if (block.thread() == 0) partial[block.index()] = static_cast<double>(sum);
  }
};
/// Calls what.spread(i, *dy) for each element.
template <class What>
struct SpreadLosses {
  static constexpr int threads = 256;
  What what;
  std::int64_t count;
  const float* dy;

  LACUNA_DEVICE void operator()(const Block<SpreadLosses>& block) const {
    if (block.global_thread() < count) what.spread(block.global_thread(), *dy);
  }
};

template <class T>
struct FocalTerms {
  FocalCall call;
  T* dlogits;
  LACUNA_DEVICE float term(std::int64_t i) const {
    const std::int64_t m = i / call.classes;
    if (call.labels[m] == -2) return 0;
    const formula::Focal<float> focal{call.alpha, call.gamma};
    const float logit = to_compute(static_cast<const T*>(call.logits)[i]);
    return call.weights[m] * focal.loss(logit, i % call.classes == call.labels[m]);
  }
  LACUNA_DEVICE void spread(std::int64_t i, float dy) const {
    const std::int64_t m = i / call.classes;
    const formula::Focal<float> focal{call.alpha, call.gamma};
    const float logit = to_compute(static_cast<const T*>(call.logits)[i]);
    const float slope = call.labels[m] == -2 ? 0.0F : focal.slope(logit, i % call.classes == call.labels[m]);
    dlogits[i] = static_cast<T>(dy * call.weights[m] * slope);
  }
};

template <class T>
struct RowTerms {
  RowsCall call;
  const T* x;
  const float* targets;
  T* dx;
  LACUNA_DEVICE float term(std::int64_t i) const {
    const std::int64_t r = i / call.width;
    const float difference = to_compute(x[call.rows[r] * call.width + i % call.width]) - targets[i];
    static_cast<T*>(call.differences)[i] = static_cast<T>(difference);
    return call.weights[r] * formula::SmoothL1<float>{call.beta}.loss(difference);
  }
  LACUNA_DEVICE void spread(std::int64_t i, float dy) const {
    const std::int64_t r = i / call.width;
    const float difference = to_compute(static_cast<const T*>(call.differences)[i]);
    dx[call.rows[r] * call.width + i % call.width] =
        static_cast<T>(dy * call.weights[r] * formula::SmoothL1<float>{call.beta}.slope(difference));
  }
};

template <class What>
void sum_losses(Stream stream, const What& what, std::int64_t count, double* partial) {
  run(stream, divide_up(count, losses_together), SumLosses<What>{what, count, partial});
}
template <class What>
void spread_losses(Stream stream, const What& what, std::int64_t count, const float* dy) {
  run(stream, divide_up(count, SpreadLosses<What>::threads), SpreadLosses<What>{what, count, dy});
}

}  // namespace

void sum_focal(Stream stream, DType type, const FocalCall& what, double* partial) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    sum_losses(stream, FocalTerms<T>{what, nullptr}, what.rows * what.classes, partial);
  });
}
void focal_gradient(Stream stream, DType type, const FocalCall& what, const float* dy, void* dlogits) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    spread_losses(stream, FocalTerms<T>{what, static_cast<T*>(dlogits)}, what.rows * what.classes, dy);
  });
}
void sum_rows(Stream stream, DType type, const RowsCall& what, const void* x, const float* targets, double* partial) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    sum_losses(stream, RowTerms<T>{what, static_cast<const T*>(x), targets, nullptr}, what.count * what.width, partial);
  });
}
void rows_gradient(Stream stream, DType type, const RowsCall& what, const float* dy, void* dx) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    spread_losses(stream, RowTerms<T>{what, nullptr, nullptr, static_cast<T*>(dx)}, what.count * what.width, dy);
  });
}

}  // namespace lacuna::cuda
