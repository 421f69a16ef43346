#include "ops/losses/loss_cuda.h"

#include "core/math.h"
#include "ops/cuda/row_kernels.h"

namespace lacuna::cuda {
namespace {

/// The smoothed target of class c is kept · q + uniform, with q from a label or from probabilities.
struct SmoothedTargets {
  const std::int64_t* labels;
  Kept<float> probabilities;
  float kept, uniform;
  bool ignores;
  std::int64_t ignored;

  SmoothedTargets(const Targets& targets, std::int64_t rows, std::int64_t classes)
      : labels(targets.labels),
        probabilities(targets.probabilities, rows * classes),
        kept(static_cast<float>(1 - targets.label_smoothing)),
        uniform(static_cast<float>(targets.label_smoothing / static_cast<double>(classes))),
        ignores(targets.ignores),
        ignored(targets.ignored) {}

  LACUNA_DEVICE Eight at_row(std::int64_t row, std::int64_t classes, std::int64_t c) const {
    if (labels == nullptr) {
      Eight target = probabilities.at_row(row, classes, c);
#pragma unroll
      for (int i = 0; i < 8; ++i) target[i] = kept * target[i] + uniform;
      return target;
    }
    const std::int64_t label = labels[row];
    Eight target;
#pragma unroll
    for (int i = 0; i < 8; ++i) target[i] = (c + i == label ? kept : 0.0F) + uniform;
    return target;
  }
  LACUNA_DEVICE bool is_ignored(std::int64_t row) const { return ignores && labels[row] == ignored; }
  LACUNA_DEVICE bool is_outside(std::int64_t row, std::int64_t classes) const {
    return labels != nullptr && (labels[row] < 0 || labels[row] >= classes);
  }
};

template <class T, int threads_>
struct Forward {
  static constexpr int threads = threads_;
  struct Shared {
    float largest[threads / warp_size], sums[threads / warp_size], losses[threads / warp_size];
  };
  Kept<T> logits;
  SmoothedTargets targets;
  float *log_sums, *losses;
  std::int64_t classes;

  LACUNA_DEVICE void operator()(const Block<Forward>& block) const {
    const std::int64_t row = block.index();
    BlockRow<threads, Kept<T>> z(logits, row, classes, block.thread());
    float largest = z.reduced(-INFINITY, Larger{}, [](float v) { return v; });
    largest = joined_of_block(block, largest, block.shared().largest, Larger{});
    float sum = z.reduced(0, Plus{}, [&](float v) { return math::exp(v - largest); });
    sum = joined_of_block(block, sum, block.shared().sums, Plus{});
    const float log_sum = largest + logf(sum);
    float loss = 0;
    z.each([&](std::int64_t c, const Eight& values) {
      const Eight target = targets.at_row(row, classes, c);
#pragma unroll
      for (int i = 0; i < 8; ++i)  // a class with z = -infinity costs nothing unless it is a target
        if (c + i < classes && (target[i] != 0 || targets.labels == nullptr)) loss += target[i] * (log_sum - values[i]);
    });
    loss = joined_of_block(block, loss, block.shared().losses, Plus{});
    if (block.thread() != 0) return;
    if (log_sums != nullptr) log_sums[row] = log_sum;
    losses[row] = targets.is_ignored(row) ? 0.0F : targets.is_outside(row, classes) ? NAN : loss;
  }
};

template <class T, int threads_>
struct Backward {
  static constexpr int threads = threads_;
  struct Shared {
    float sums[threads / warp_size], largest[threads / warp_size], exponentials[threads / warp_size];
  };
  Kept<T> logits;
  SmoothedTargets targets;
  const float *log_sums, *scale;
  float divisor, inverse_cap;
  Written<T> dz;
  std::int64_t classes;

  LACUNA_DEVICE void operator()(const Block<Backward>& block) const {
    const std::int64_t row = block.index();
    BlockRow<threads, Kept<T>> z(logits, row, classes, block.thread());
    float log_sum = 0;
    if (log_sums != nullptr) {
      log_sum = log_sums[row];
    } else {
      float largest = z.reduced(-INFINITY, Larger{}, [](float v) { return v; });
      largest = joined_of_block(block, largest, block.shared().largest, Larger{});
      const float sum = z.reduced(0, Plus{}, [&](float v) { return math::exp(v - largest); });
      log_sum = largest + logf(joined_of_block(block, sum, block.shared().exponentials, Plus{}));
    }
    float sum = 1;  // of the targets
    if (targets.labels == nullptr) {
      sum = 0;
      for (std::int64_t c = block.thread() * 8; c < classes; c += threads * 8) {
        const Eight q = targets.at_row(row, classes, c);
#pragma unroll
        for (int i = 0; i < 8; ++i)
          if (c + i < classes) sum += q[i];
      }
      sum = joined_of_block(block, sum, block.shared().sums, Plus{});
    }
    const bool ignored = targets.is_ignored(row);
    const float factor = ignored ? 0.0F : targets.is_outside(row, classes) ? NAN : *scale / divisor;
    z.each([&](std::int64_t c, const Eight& values) {
      const Eight q = targets.at_row(row, classes, c);
      Eight out;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float bent = inverse_cap * values[i];
        out[i] = ignored ? 0.0F : factor * (1.0F - bent * bent) * (sum * math::exp(values[i] - log_sum) - q[i]);
      }
      dz.set_row(row, classes, c, out);
    });
  }
};

}  // namespace

void row_losses(Stream stream, DType type, const RowLosses& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    with_row_threads(what.classes, [&]<int threads>(Threads<threads>) {
      run(stream, what.rows,
          Forward<T, threads>{.logits = {what.logits, what.rows * what.classes},
                              .targets = {what.targets, what.rows, what.classes},
                              .log_sums = what.log_sums,
                              .losses = what.losses,
                              .classes = what.classes});
    });
  });
}

void row_gradients(Stream stream, DType type, const RowGradients& what) {
  const std::int64_t count = what.rows * what.classes;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    with_row_threads(what.classes, [&]<int threads>(Threads<threads>) {
      run(stream, what.rows,
          Backward<T, threads>{.logits = {what.logits, count},
                               .targets = {what.targets, what.rows, what.classes},
                               .log_sums = what.log_sums,
                               .scale = what.scale,
                               .divisor = what.divisor,
                               .inverse_cap = what.inverse_cap,
                               .dz = {what.dz, count},
                               .classes = what.classes});
    });
  });
}

}  // namespace lacuna::cuda
