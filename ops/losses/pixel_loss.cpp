#include "ops/losses/pixel_loss.h"

#include "core/math.h"
#include "core/planned_device.h"
#include "ops/kernels/rowwise.h"
#include "ops/losses/pixel_loss_kernels.h"
#include "ops/operand.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lacuna {
namespace {

const RegisterOp<PixelLoss> pixel_loss;

template <class F>
void with_label_type(const Tensor& labels, const F& f) {
  if (labels.dtype() == DType::u8)
    f(labels.data<std::uint8_t>());
  else
    f(labels.data<std::int64_t>());
}

/// Lines of resized logits, made one at a time.
template <class T>
class ResizedLine {
 public:
  using C = Compute<T>;
  ResizedLine(const Tensor& logits, const Shape& labels)
      : height_(logits.shape()[1]),
        width_(logits.shape()[2]),
        classes_(logits.shape()[3]),
        down_(axis_of(height_, labels[1])),
        across_(axis_of(width_, labels[2])),
        logits_(logits.data<T>()),
        line_(static_cast<std::size_t>(width_ * classes_)) {}

  const ResampledAxis& down() const { return down_; }
  const ResampledAxis& across() const { return across_; }
  std::int64_t row_size() const { return width_ * classes_; }

  /// Goes to line `y` of an image.
  void move_to(std::int64_t image, std::int64_t y) {
    const ResampledAxis::Taps taps = down_.taps(static_cast<std::int32_t>(y));
    const T *const low = logits_ + (image * height_ + taps.low) * row_size(), *const high = logits_ + (image * height_ +
                                                                                                       taps.high) *
                                                                                                          row_size();
    const C share = taps.share<C>();
    const std::int64_t size = row_size();
    C* const out = line_.data();
#pragma GCC ivdep
    for (std::int64_t i = 0; i < size; ++i) out[i] = (1 - share) * to_compute(low[i]) + share * to_compute(high[i]);
  }
  /// The logits z [C] of pixel x.
  void pixel(const ResampledAxis::Taps& taps, C* z) const {
    const C *const low = line_.data() + taps.low * classes_, *const high = line_.data() + taps.high * classes_;
    const C share = taps.share<C>();
    const std::int64_t classes = classes_;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < classes; ++c) z[c] = (1 - share) * low[c] + share * high[c];
  }

 private:
  static ResampledAxis axis_of(std::int64_t from, std::int64_t to) {
    return {static_cast<std::int32_t>(from), static_cast<std::int32_t>(to), Resampling::bilinear};
  }

  std::int64_t height_, width_, classes_;
  ResampledAxis down_, across_;
  const T* logits_;
  std::vector<C> line_;  // [w, C]
};

std::vector<ResampledAxis::Taps> taps_of(const ResampledAxis& axis) {
  std::vector<ResampledAxis::Taps> taps;
  for (std::int32_t i = 0; i < axis.out; ++i) taps.push_back(axis.taps(i));
  return taps;
}

/// p = softmax(z), both [n], and the largest logit and the sum of exponentials.
template <class C>
struct Softmax {
  C largest, sum;
  Softmax(std::int64_t n, const C* z, C* p) : largest(max_of(n, z)) {
    C total{};
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = 0; i < n; ++i) {
      p[i] = math::exp(z[i] - largest);
      total += p[i];
    }
    sum = total;
    const C inverse = 1 / sum;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) p[i] *= inverse;
  }
};

std::int64_t place_of_largest(std::int64_t n, const auto* z) { return std::max_element(z, z + n) - z; }

/// Weights of the classes, 1 where none are given, and their sum.
template <class C>
struct ClassWeightsOf {
  std::vector<C> values;
  C sum{};
  ClassWeightsOf(const Tensor& given, std::int64_t classes) : values(static_cast<std::size_t>(classes), C{1}) {
    if (given.defined()) std::copy_n(given.data<C>(), classes, values.begin());
    for (const C value : values) sum += value;
  }
};

template <class P, class Z>
void set_prediction(P* predictions, std::int64_t pixel, std::int64_t classes, const Z* z) {
  predictions[pixel] = static_cast<P>(place_of_largest(classes, z));
}

template <class F>
void with_prediction_type(const Tensor& predictions, const F& f) {
  if (predictions.dtype() == DType::u8)
    f(predictions.data<std::uint8_t>());
  else
    f(predictions.data<std::int32_t>());
}

template <class T, class L, class P>
void forward_on_cpu(const PixelLossRule& rule, const Tensor& logits, const Tensor& labels, const L* label_of,
                    const Tensor& weights, const Tensor& sums, P* predictions, const Tensor& loss) {
  using C = Compute<T>;
  const std::int64_t classes = logits.shape()[3], lines = labels.shape()[0] * labels.shape()[1],
                     width = labels.shape()[2];
  const ClassWeightsOf<C> weight_of(weights, classes);
  const auto smoothed = static_cast<C>(rule.label_smoothing / static_cast<double>(classes)),
             kept = static_cast<C>(1 - rule.label_smoothing);
  const int parts = threads();
  const auto per_part = static_cast<std::size_t>(2 + 3 * classes);  // Σ w l, Σ w, Σ p t, Σ (p + t), Σ t
  std::vector<double> partial(static_cast<std::size_t>(parts) * per_part);
  parallel_tasks(parts, [&](std::int64_t index, int) {
    ResizedLine<T> resized(logits, labels.shape());
    const std::vector<ResampledAxis::Taps> columns = taps_of(resized.across());
    std::vector<C> z(static_cast<std::size_t>(classes)), p(z.size());
    double* const own = partial.data() + static_cast<std::size_t>(index) * per_part;
    double *const both = own + 2, *const either = both + classes, *const present = either + classes;
    const Range range = part(lines, index, parts);
    for (std::int64_t line = range.begin; line < range.end; ++line) {
      resized.move_to(line / labels.shape()[1], line % labels.shape()[1]);
      for (std::int64_t x = 0; x < width; ++x) {
        const auto label = static_cast<std::int64_t>(label_of[line * width + x]);
        resized.pixel(columns[static_cast<std::size_t>(x)], z.data());
        set_prediction(predictions, line * width + x, classes, z.data());
        if (label == rule.ignored) continue;
        const Softmax<C> softmax(classes, z.data(), p.data());
        const C log_sum = softmax.largest + std::log(softmax.sum), weight = weight_of.values[std::size_t(label)];
        C term = kept * weight * (log_sum - z[std::size_t(label)]);
        if (smoothed != 0)
          term += smoothed * sum_of(
                                 classes, [log_sum](const auto& w, const auto& v) { return w * (log_sum - v); },
                                 weight_of.values.data(), z.data());
        own[0] += static_cast<double>(term);
        own[1] += static_cast<double>(weight);
        if (rule.dice == 0) continue;
        for (std::int64_t c = 0; c < classes; ++c) either[c] += static_cast<double>(p[std::size_t(c)]);
        both[label] += static_cast<double>(p[std::size_t(label)]);
        either[label] += 1;
        present[label] += 1;
      }
    }
  });
  std::vector<double> total(per_part);
  for (std::size_t i = 0; i < partial.size(); ++i) total[i % per_part] += partial[i];
  C* const out = sums.data<C>();
  for (std::size_t i = 1; i < per_part; ++i) out[i - 1] = static_cast<C>(total[i]);
  double result = total[1] > 0 ? rule.cross_entropy * total[0] / total[1] : 0;
  if (rule.dice != 0) {
    const double *const both = total.data() + 2, *const either = both + classes, *const present = either + classes;
    for (std::int64_t c = 0; c < classes; ++c)
      if (present[c] > 0) result += rule.dice * (1 - 2 * both[c] / either[c]) / static_cast<double>(classes);
  }
  *loss.data<C>() = static_cast<C>(result);
}

/// For each class, the slopes of the Dice loss by p where the label is the class, and elsewhere.
template <class C>
struct DiceSlopes {
  std::vector<C> of_label, of_others;  // of_others of all pixels; of_label beside it
  DiceSlopes(const PixelLossRule& rule, const C* sums, std::int64_t classes)
      : of_label(static_cast<std::size_t>(classes)), of_others(of_label) {
    const C *const both = sums + 1, *const either = both + classes, *const present = either + classes;
    const auto share = static_cast<C>(2 * rule.dice / static_cast<double>(classes));
    for (std::int64_t c = 0; c < classes; ++c) {
      if (!(present[c] > 0)) continue;
      of_label[std::size_t(c)] = -share / either[c];
      of_others[std::size_t(c)] = share * both[c] / (either[c] * either[c]);
    }
  }
};

/// A band is the lines between two rows of logits. Its gradients go to these rows: those of the upper ones are in
/// rows[0], those of the lower ones in rows[1], each [h, w, C], so that bands run side by side.
template <class T, class L>
void backward_on_cpu(const PixelLossRule& rule, const Tensor& logits, const Tensor& labels, const L* label_of,
                     const Tensor& weights, const Tensor& sums, const Tensor& dy, const Tensor& dlogits) {
  using C = Compute<T>;
  const Shape& shape = logits.shape();
  const std::int64_t height = shape[1], classes = shape[3], all_lines = labels.shape()[1], width = labels.shape()[2],
                     row = shape[2] * classes;
  const Tensor rows = Tensor::empty({2, height, row}, compute_type(logits.dtype()), Device::cpu, Purpose::workspace);
  C* const of_rows = rows.data<C>();
  const C upstream = *dy.data<C>(), total_weight = *sums.data<C>();
  const C scale = total_weight > 0 ? upstream * static_cast<C>(rule.cross_entropy) / total_weight : C{};  // of Σ w l
  const ClassWeightsOf<C> weight_of(weights, classes);
  const DiceSlopes<C> dice(rule, sums.data<C>(), classes);
  const auto smoothed = static_cast<C>(rule.label_smoothing / static_cast<double>(classes)),
             kept = static_cast<C>(1 - rule.label_smoothing);
  for (std::int64_t image = 0; image < shape[0]; ++image) {
    std::fill_n(of_rows, rows.count(), C{});
    parallel_tasks(height, [&](std::int64_t band, int) {
      ResizedLine<T> resized(logits, labels.shape());
      const std::vector<ResampledAxis::Taps> columns = taps_of(resized.across());
      std::vector<C> z(static_cast<std::size_t>(classes)), p(z.size()), of_line(static_cast<std::size_t>(row));
      const ResampledAxis::Range readers = resized.down().readers(static_cast<std::int32_t>(band));
      for (std::int32_t y = readers.begin; y < readers.end; ++y) {
        const ResampledAxis::Taps down = resized.down().taps(y);
        if (down.low != band) continue;
        resized.move_to(image, y);
        std::fill(of_line.begin(), of_line.end(), C{});
        for (std::int64_t x = 0; x < width; ++x) {
          const auto label = static_cast<std::int64_t>(label_of[(image * all_lines + y) * width + x]);
          if (label == rule.ignored) continue;
          const ResampledAxis::Taps& across = columns[static_cast<std::size_t>(x)];
          resized.pixel(across, z.data());
          const Softmax<C> softmax(classes, z.data(), p.data());
          const auto at = static_cast<std::size_t>(label);
          const C weight = weight_of.values[at], slope = kept * weight + smoothed * weight_of.sum;
          C* const g = z.data();  // [C], in place of z
#pragma GCC ivdep
          for (std::int64_t c = 0; c < classes; ++c)
            g[c] = scale * (slope * p[std::size_t(c)] - smoothed * weight_of.values[std::size_t(c)]);
          g[label] -= scale * kept * weight;
          if (rule.dice != 0) {
            const C mean = p[at] * dice.of_label[at] + sum_of(
                                                           classes, [](const auto& a, const auto& b) { return a * b; },
                                                           p.data(), dice.of_others.data());
#pragma GCC ivdep
            for (std::int64_t c = 0; c < classes; ++c)
              g[c] += upstream * p[std::size_t(c)] * (dice.of_others[std::size_t(c)] - mean);
            g[label] += upstream * p[at] * dice.of_label[at];
          }
          const C share = across.share<C>();
          C *const low = of_line.data() + across.low * classes, *const high = of_line.data() + across.high * classes;
          for (std::int64_t c = 0; c < classes; ++c) low[c] += (1 - share) * g[c];
          for (std::int64_t c = 0; c < classes; ++c) high[c] += share * g[c];
        }
        const C share = down.share<C>();
        C *const upper = of_rows + down.low * row, *const lower = down.high == down.low
                                                                      ? upper
                                                                      : of_rows + (height + down.high) * row;
#pragma GCC ivdep
        for (std::int64_t i = 0; i < row; ++i) {
          upper[i] += (1 - share) * of_line[std::size_t(i)];
          lower[i] += share * of_line[std::size_t(i)];
        }
      }
    });
    T* const out = dlogits.data<T>() + image * height * row;
    for (std::int64_t i = 0; i < height * row; ++i) out[i] = static_cast<T>(of_rows[i] + of_rows[height * row + i]);
  }
}

template <class T, class P>
void predict_on_cpu(const Tensor& logits, const Shape& shape, P* predictions) {
  const std::int64_t classes = logits.shape()[3];
  const int parts = threads();
  parallel_tasks(parts, [&](std::int64_t index, int) {
    ResizedLine<T> resized(logits, shape);
    const std::vector<ResampledAxis::Taps> columns = taps_of(resized.across());
    std::vector<Compute<T>> z(static_cast<std::size_t>(classes));
    const Range range = part(shape[0] * shape[1], index, parts);
    for (std::int64_t line = range.begin; line < range.end; ++line) {
      resized.move_to(line / shape[1], line % shape[1]);
      for (std::int64_t x = 0; x < shape[2]; ++x) {
        resized.pixel(columns[static_cast<std::size_t>(x)], z.data());
        set_prediction(predictions, line * shape[2] + x, classes, z.data());
      }
    }
  });
}

void check_labels_of_pixels(const Tensor& labels, std::int64_t ignored, std::int64_t classes) {
  const std::int64_t lines = labels.shape()[1], width = labels.shape()[2];
  with_label_type(labels, [&](const auto* values) {
    for (std::int64_t i = 0; i < labels.count(); ++i)
      if (const auto value = static_cast<std::int64_t>(values[i]); value != ignored && (value < 0 || value >= classes))
        reject(
            "the mask of sample {} has {} in row {}, column {}: with {} classes a pixel has to lie in 0 to {}, or be "
            "{}, which is ignored",
            i / (lines * width), value, i / width % lines, i % width, classes, classes - 1, ignored);
  });
}

const RegisterKernel cpu_check{check_pixel_labels, DeviceKind::cpu, check_labels_of_pixels};
const RegisterKernel cpu_pixel_forward{
    pixel_loss_forward, DeviceKind::cpu,
    [](const PixelLossRule& rule, const Tensor& logits, const Tensor& labels, const Tensor& weights, const Tensor& sums,
       const Tensor& predictions, const Tensor& loss) {
      with_float_type(logits.dtype(), [&]<class T>(Type<T>) {
        with_label_type(labels, [&](const auto* values) {
          with_prediction_type(
              predictions, [&](auto* to) { forward_on_cpu<T>(rule, logits, labels, values, weights, sums, to, loss); });
        });
      });
    }};
const RegisterKernel cpu_pixel_backward{
    pixel_loss_backward, DeviceKind::cpu,
    [](const PixelLossRule& rule, const Tensor& logits, const Tensor& labels, const Tensor& weights, const Tensor& sums,
       const Tensor& dy, const Tensor& dlogits) {
      with_float_type(logits.dtype(), [&]<class T>(Type<T>) {
        with_label_type(labels, [&](const auto* values) {
          backward_on_cpu<T>(rule, logits, labels, values, weights, sums, dy, dlogits);
        });
      });
    }};
// On meta, workspaces: on the CPU that of an image's gradient.
const RegisterKernel meta_pixel_forward{pixel_loss_forward, DeviceKind::meta,
                                        [](const PixelLossRule&, const Tensor& logits, const Tensor& labels,
                                           const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
                                          if (computes_on_cuda(logits.device())) PixelScratch(logits, labels);
                                        }};
const RegisterKernel meta_pixel_backward{
    pixel_loss_backward, DeviceKind::meta,
    [](const PixelLossRule&, const Tensor& logits, const Tensor& labels, const Tensor&, const Tensor&, const Tensor& dy,
       const Tensor&) {
      const Shape& shape = logits.shape();
      if (computes_on_cuda(logits.device()))
        PixelScratch(logits, labels);
      else
        Tensor::empty({2, shape[1], shape[2] * shape[3]}, dy.dtype(), Device::meta, Purpose::workspace);
    }};
const RegisterKernel cpu_predict{
    predict_pixels, DeviceKind::cpu, [](const Tensor& logits, const Tensor& predictions) {
      with_float_type(logits.dtype(), [&]<class T>(Type<T>) {
        with_prediction_type(predictions, [&](auto* to) { predict_on_cpu<T>(logits, predictions.shape(), to); });
      });
    }};

PixelLossRule rule_of(const PixelLoss& op) { return {op.ignored, op.cross_entropy, op.dice, op.label_smoothing}; }

}  // namespace

Tensor PixelLoss::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  const Tensor &z = inputs[logits], &label = inputs[labels];
  const DType compute = compute_type(z.dtype());
  constexpr std::int64_t most = 1 << 15;
  expect(z.shape().rank() == 4 && z.shape()[3] > 0, "pixel_loss expects logits [N, h, w, C], got {}", z.shape());
  expect(label.shape().rank() == 3 && label.shape()[0] == z.shape()[0] && label.count() > 0 &&
             (label.dtype() == DType::u8 || label.dtype() == DType::i64),
         "pixel_loss of logits {} expects labels [{}, H, W] in u8 or i64, got {} in {}", z.shape(), z.shape()[0],
         label.shape(), name_of(label.dtype()));
  expect(std::max({z.shape()[1], z.shape()[2], label.shape()[1], label.shape()[2]}) < most && z.count() > 0,
         "pixel_loss expects sides from 1 to {}, got logits {} and labels {}", most - 1, z.shape(), label.shape());
  expect(!inputs[weights].defined() ||
             (inputs[weights].shape() == Shape{z.shape()[3]} && inputs[weights].dtype() == compute),
         "pixel_loss expects weights [{}] in {}, got {} in {}", z.shape()[3], name_of(compute), inputs[weights].shape(),
         name_of(inputs[weights].dtype()));
  expect(label_smoothing >= 0 && label_smoothing <= 1, "pixel_loss expects a label smoothing in [0, 1], got {}",
         label_smoothing);
  check_pixel_labels(label.device(), label, ignored, z.shape()[3]);
  extra_outputs = {Tensor::empty({1 + 3 * z.shape()[3]}, compute, z.device()),
                   Tensor::empty(label.shape(), z.shape()[3] <= 256 ? DType::u8 : DType::i32, z.device())};
  Tensor loss = Tensor::empty({}, compute, z.device());
  pixel_loss_forward(z.device(), rule_of(*this), z, label, inputs[weights], extra_outputs[sums],
                     extra_outputs[predictions], loss);
  return loss;
}

void PixelLoss::backward(const Tensor& dy, const Saved<PixelLoss>& saved, Grads& grads) const {
  const Tensor z = saved.get<input(logits)>().whole();
  const Tensor weight = saved.has<input(weights)>() ? saved.get<input(weights)>().whole() : Tensor();
  grads[logits] = empty_like(z);
  pixel_loss_backward(z.device(), rule_of(*this), z, saved.get<input(labels)>().whole(), weight,
                      saved.get<extra_output(sums)>().whole(), dy, grads[logits]);
}

}  // namespace lacuna
