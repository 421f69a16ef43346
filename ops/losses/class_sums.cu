#include "ops/losses/class_sums_cuda.h"

#include "ops/cuda/row_kernels.h"
#include "ops/losses/class_formulas.h"

namespace lacuna::cuda {
namespace {

/// The rows of ClassSum, each [rows].
struct Sums {
  float *largest, *exponentials, *logits, *of_label;
  explicit Sums(const ClassRows& rows)
      : largest(rows.sums),
        exponentials(rows.sums + rows.rows),
        logits(rows.sums + 2 * rows.rows),
        of_label(rows.sums + 3 * rows.rows) {}
};

template <int threads_>
struct Absorb {
  static constexpr int threads = threads_;
  struct Shared {
    float largest[threads / warp_size], exponentials[threads / warp_size], logits[threads / warp_size];
  };
  ClassRows rows;
  AbsorbedClasses classes;
  Sums sums;
  float bound;
  Kept<float> logits;
  Written<float> made;

  LACUNA_DEVICE void operator()(const Block<Absorb>& block) const {
    const std::int64_t row = block.index(), label = rows.labels[row], at = label - classes.first;
    const bool counts = label != rows.ignored;
    BlockRow<threads, Kept<float>> z(logits, row, classes.count, block.thread());
    float largest = z.reduced(-INFINITY, Larger{}, [](float v) { return v; });
    largest = joined_of_block(block, largest, block.shared().largest, Larger{});
    const float before = sums.largest[row];
    largest = before > largest ? before : largest;
    const float keep = math::exp(before - largest);
    float exponentials = z.reduced(0, Plus{}, [&](float v) { return math::exp(v - largest); });
    exponentials = joined_of_block(block, exponentials, block.shared().exponentials, Plus{});
    float total = z.reduced(0, Plus{}, [](float v) { return v; });
    total = joined_of_block(block, total, block.shared().logits, Plus{});
    if (block.thread() == 0) {
      if (at >= 0 && at < classes.count) sums.of_label[row] = classes.logits[row * classes.count + at];
      if (label < 0 || label >= rows.classes) sums.of_label[row] = NAN;
    }
    block.sync();  // all have read the sums and the label's logit
    if (block.thread() == 0) {
      sums.largest[row] = largest;
      sums.exponentials[row] = keep * sums.exponentials[row] + exponentials;
      sums.logits[row] += total;
    }
    if (!classes.gradient) return;
    z.each([&](std::int64_t c, const Eight& values) {
      Eight out;
#pragma unroll
      for (int i = 0; i < 8; ++i)
        out[i] = counts ? formula::slope_of_cap(bound, values[i]) * math::exp(values[i] - largest) : 0.0F;
      made.set_row(row, classes.count, c, out);
    });
    if (classes.running == nullptr || keep == 1) return;
    for (std::int64_t i = block.thread(); i < classes.width; i += threads)
      classes.running[row * classes.width + i] *= keep;
  }
};

/// A block a row.
template <class T>
struct TakeLabelRows {
  static constexpr int threads = 128;
  LabelRows what;
  Kept<T> weight;
  Written<float> to;
  LACUNA_DEVICE void operator()(const Block<TakeLabelRows>& block) const {
    const std::int64_t row = block.index(), at = what.labels[row] - what.first;
    if (at < 0 || at >= what.count) return;
    for (std::int64_t i = block.thread() * 8; i < what.width; i += threads * 8)
      to.set_row(row, what.width, i, weight.at_row(at, what.width, i));
  }
};

/// One block.
struct AddLosses {
  static constexpr int threads = 256;
  struct Shared {
    double sums[threads / warp_size];
  };
  ClassRows rows;
  Sums sums;
  double* sum;
  LACUNA_DEVICE void operator()(const Block<AddLosses>& block) const {
    double own = 0;
    for (std::int64_t row = block.thread(); row < rows.rows; row += threads)
      if (rows.labels[row] != rows.ignored)
        own += static_cast<double>(formula::class_loss(rows.label_smoothing, rows.classes, sums.largest[row],
                                                       sums.exponentials[row], sums.logits[row], sums.of_label[row]));
    own = joined_of_block(block, own, block.shared().sums, Plus{});
    if (block.thread() == 0) *sum += own;
  }
};

/// A block a row.
template <class T>
struct Finish {
  static constexpr int threads = 128;
  ClassRows rows;
  Sums sums;
  const float* scale;
  float bound;
  std::int64_t width;
  Kept<float> running, of_labels;
  Written<T> to;
  LACUNA_DEVICE void operator()(const Block<Finish>& block) const {
    const std::int64_t row = block.index();
    const bool counts = rows.labels[row] != rows.ignored;
    const float of_all = *scale / sums.exponentials[row];
    const float of_own = *scale * formula::slope_of_cap(bound, sums.of_label[row]);
    for (std::int64_t i = block.thread() * 8; i < width; i += threads * 8) {
      const Eight all = running.at_row(row, width, i), own = of_labels.at_row(row, width, i);
      Eight out;
#pragma unroll
      for (int k = 0; k < 8; ++k) out[k] = counts ? of_all * all[k] - of_own * own[k] : 0.0F;
      to.set_row(row, width, i, out);
    }
  }
};

}  // namespace

void absorb_classes(Stream stream, const ClassRows& rows, const AbsorbedClasses& classes) {
  const std::int64_t count = rows.rows * classes.count;
  with_row_threads(classes.count, [&]<int threads>(Threads<threads>) {
    run(stream, rows.rows,
        Absorb<threads>{.rows = rows,
                        .classes = classes,
                        .sums = Sums(rows),
                        .bound = formula::bound_of_cap<float>(rows.soft_cap),
                        .logits = {classes.logits, count},
                        .made = {classes.logits, count}});
  });
}

void take_label_rows(Stream stream, DType type, const LabelRows& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, what.rows,
        TakeLabelRows<T>{
            .what = what, .weight = {what.weight, what.count * what.width}, .to = {what.to, what.rows * what.width}});
  });
}

void add_class_losses(Stream stream, const ClassRows& rows, double* sum) {
  run(stream, 1, AddLosses{.rows = rows, .sums = Sums(rows), .sum = sum});
}

void class_gradient(Stream stream, DType type, const ClassRows& rows, const ClassGradient& what) {
  const std::int64_t count = rows.rows * what.width;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, rows.rows,
        Finish<T>{.rows = rows,
                  .sums = Sums(rows),
                  .scale = what.scale,
                  .bound = formula::bound_of_cap<float>(rows.soft_cap),
                  .width = what.width,
                  .running = {what.running, count},
                  .of_labels = {what.of_labels, count},
                  .to = {what.to, count}});
  });
}

}  // namespace lacuna::cuda
