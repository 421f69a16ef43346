#include "ops/losses/pixel_loss_cuda.h"

#include "core/block.h"
#include "core/math.h"
#include "ops/cuda/elements.h"

namespace lacuna::cuda {
namespace {

template <class T>
struct View {
  LabelledPixels of;

  LACUNA_DEVICE std::int64_t label(std::int64_t pixel) const {
    return of.labels_u8 != nullptr ? of.labels_u8[pixel] : of.labels_i64[pixel];
  }
  LACUNA_DEVICE float weight(std::int64_t c) const { return of.weights == nullptr ? 1.0F : of.weights[c]; }
};

/// The logits of one pixel of the resized images.
template <class T>
struct ResizedPixel {
  const T *a, *b, *c, *d;  // [classes] each: above, below; left, right
  float down, across;
  LACUNA_DEVICE ResizedPixel(const LabelledPixels& of, std::int64_t image, const ResampledAxis::Taps& h,
                             const ResampledAxis::Taps& w)
      : down(h.share<float>()), across(w.share<float>()) {
    const T* const images = static_cast<const T*>(of.logits) + image * of.down.extent * of.across.extent * of.classes;
    a = images + (static_cast<std::int64_t>(h.low) * of.across.extent + w.low) * of.classes;
    b = images + (static_cast<std::int64_t>(h.low) * of.across.extent + w.high) * of.classes;
    c = images + (static_cast<std::int64_t>(h.high) * of.across.extent + w.low) * of.classes;
    d = images + (static_cast<std::int64_t>(h.high) * of.across.extent + w.high) * of.classes;
  }
  LACUNA_DEVICE ResizedPixel(const LabelledPixels& of, std::int64_t pixel)
      : ResizedPixel(of, pixel / of.across.out / of.down.out,
                     of.down.taps(static_cast<std::int32_t>(pixel / of.across.out % of.down.out)),
                     of.across.taps(static_cast<std::int32_t>(pixel % of.across.out))) {}
  LACUNA_DEVICE float operator()(std::int64_t k) const {
    const float left = (1 - down) * to_compute(a[k]) + down * to_compute(c[k]);
    const float right = (1 - down) * to_compute(b[k]) + down * to_compute(d[k]);
    return (1 - across) * left + across * right;
  }
};

/// For each class, the slopes of the Dice loss by p where the label is the class, and elsewhere.
struct DiceSlopes {
  const float* sums;  // [1 + 3 classes]
  std::int64_t classes;
  float share;  // 2 · dice / classes
  LACUNA_DEVICE float of_label(std::int64_t c) const {
    const float* const own = sums + 1 + c;
    return own[2 * classes] > 0 ? -share / own[classes] : 0.0F;
  }
  LACUNA_DEVICE float of_others(std::int64_t c) const {
    const float* const own = sums + 1 + c;
    return own[2 * classes] > 0 ? share * own[0] / (own[classes] * own[classes]) : 0.0F;
  }
};

struct Largest {
  float value;
  std::int32_t place;
};

/// The largest logit and the first class that has it, of all lanes of a warp; each has every 32nd class.
template <class T>
LACUNA_DEVICE Largest largest_of(const ResizedPixel<T>& z, std::int64_t classes, int lane) {
  Largest best{-INFINITY, 0x7fffffff};
  for (std::int64_t k = lane; k < classes; k += warp_size)
    if (const float value = z(k); value > best.value || best.place == 0x7fffffff)
      best = {value, static_cast<std::int32_t>(k)};
#pragma unroll
  for (int step = warp_size / 2; step > 0; step /= 2) {
    const Largest other{exchange(best.value, step), exchange(best.place, step)};
    if (other.value > best.value || (other.value == best.value && other.place < best.place)) best = other;
  }
  return best;
}

template <class T>
LACUNA_DEVICE float log_sum_of(const ResizedPixel<T>& z, std::int64_t classes, float largest, int lane) {
  float sum = 0;
  for (std::int64_t k = lane; k < classes; k += warp_size) sum += math::exp(z(k) - largest);
  return largest + logf(sum_of_lanes(sum));
}

/// A warp has a pixel.
template <class T, bool labelled>
struct Losses {
  static constexpr int threads = 256;
  View<T> view;
  PixelLosses to;
  LACUNA_DEVICE void operator()(const Block<Losses>& block) const {
    const LabelledPixels& of = view.of;
    const std::int64_t pixel = block.global_thread() / warp_size;
    if (pixel >= of.pixels()) return;
    const ResizedPixel<T> z(of, pixel);
    const int lane = block.lane();
    const Largest best = largest_of(z, of.classes, lane);
    if (lane == 0) {
      if (to.predictions_u8 != nullptr)
        to.predictions_u8[pixel] = static_cast<std::uint8_t>(best.place);
      else
        to.predictions_i32[pixel] = best.place;
    }
    if constexpr (labelled) {
      const float log_sum = log_sum_of(z, of.classes, best.value, lane);
      const std::int64_t label = view.label(pixel);
      const bool counts = label != of.ignored, outside = label < 0 || label >= of.classes;
      float smooth = 0;
      if (of.label_smoothing != 0) {
        for (std::int64_t k = lane; k < of.classes; k += warp_size) smooth += view.weight(k) * (log_sum - z(k));
        smooth = sum_of_lanes(smooth);
      }
      if (lane != 0) return;
      const float weight = counts && !outside ? view.weight(label) : 0.0F;
      float loss = 0;
      if (counts)
        loss = outside ? NAN
                       : (1 - of.label_smoothing) * weight * (log_sum - z(label)) +
                             of.label_smoothing / static_cast<float>(of.classes) * smooth;
      to.losses[pixel] = loss;
      to.weights[pixel] = weight;
      to.log_sums[pixel] = log_sum;
    }
  }
};

/// A block has a run of pixels, a thread some of the classes.
template <class T>
struct ClassSums {
  static constexpr int threads = 128;
  View<T> view;
  const float* log_sums;
  std::int64_t run;
  float* partial;
  LACUNA_DEVICE void operator()(const Block<ClassSums>& block) const {
    const LabelledPixels& of = view.of;
    const std::int64_t begin = block.index() * run, last = begin + run < of.pixels() ? begin + run : of.pixels();
    for (std::int64_t c = block.thread(); c < of.classes; c += threads) {
      float both = 0, either = 0, present = 0;
      for (std::int64_t pixel = begin; pixel < last; ++pixel) {
        const std::int64_t label = view.label(pixel);
        if (label == of.ignored) continue;
        const float p = math::exp(ResizedPixel<T>(of, pixel)(c) - log_sums[pixel]);
        either += p;
        if (label != c) continue;
        both += p;
        either += 1;
        present += 1;
      }
      float* const to = partial + block.index() * 3 * of.classes + c;
      to[0] = both;
      to[of.classes] = either;
      to[2 * of.classes] = present;
    }
  }
};

struct Finish {
  static constexpr int threads = 32;
  FinishedPixelLoss what;
  LACUNA_DEVICE void operator()(const Block<Finish>& block) const {
    if (block.thread() != 0) return;
    const float weight = *what.weight_sum, loss = *what.loss_sum;
    float result = weight > 0 ? what.cross_entropy * (loss / weight) : loss;  // a label outside makes it NaN
    for (std::int64_t c = 0; what.dice != 0 && c < what.classes; ++c) {
      const float* const own = what.sums + 1 + c;
      if (own[2 * what.classes] > 0)
        result += what.dice * (1 - 2 * own[0] / own[what.classes]) / static_cast<float>(what.classes);
    }
    what.sums[0] = weight;
    *what.loss = result;
  }
};

/// A warp has a pixel.
template <class T>
struct Statistics {
  static constexpr int threads = 256;
  View<T> view;
  PixelGradients what;
  LACUNA_DEVICE void operator()(const Block<Statistics>& block) const {
    const LabelledPixels& of = view.of;
    const std::int64_t pixel = block.global_thread() / warp_size;
    if (pixel >= of.pixels()) return;
    const ResizedPixel<T> z(of, pixel);
    const int lane = block.lane();
    const float log_sum = log_sum_of(z, of.classes, largest_of(z, of.classes, lane).value, lane);
    const DiceSlopes slopes{what.sums, of.classes, 2 * what.dice / static_cast<float>(of.classes)};
    float mean = 0;
    if (what.dice != 0) {
      const std::int64_t label = view.label(pixel);
      for (std::int64_t k = lane; k < of.classes; k += warp_size)
        mean += math::exp(z(k) - log_sum) * (slopes.of_others(k) + (k == label ? slopes.of_label(k) : 0.0F));
      mean = sum_of_lanes(mean);
    }
    if (lane != 0) return;
    what.log_sums[pixel] = log_sum;
    what.means[pixel] = mean;
  }
};

/// A thread has one logit, and gathers from the pixels that read it.
template <class T>
struct Gradient {
  static constexpr int threads = 256;
  View<T> view;
  PixelGradients what;
  LACUNA_DEVICE void operator()(const Block<Gradient>& block) const {
    const LabelledPixels& of = view.of;
    const std::int64_t e = block.global_thread(), k = e % of.classes, place = e / of.classes;
    const std::int64_t line = place / of.across.extent, image = line / of.down.extent;
    if (image >= of.images) return;
    const auto i = static_cast<std::int32_t>(line % of.down.extent),
               j = static_cast<std::int32_t>(place % of.across.extent);
    const float upstream = *what.upstream, total = what.sums[0];
    const float scale = total > 0 ? upstream * what.cross_entropy / total : 0.0F;
    const float smoothed = of.label_smoothing / static_cast<float>(of.classes), kept = 1 - of.label_smoothing;
    const DiceSlopes slopes{what.sums, of.classes, 2 * what.dice / static_cast<float>(of.classes)};
    float all_weights = static_cast<float>(of.classes);
    if (of.weights != nullptr && smoothed != 0) {
      all_weights = 0;
      for (std::int64_t c = 0; c < of.classes; ++c) all_weights += of.weights[c];
    }
    const float own_weight = view.weight(k), others = what.dice != 0 ? slopes.of_others(k) : 0.0F;
    const ResampledAxis::Range rows = of.down.readers(i), columns = of.across.readers(j);
    float sum = 0;
    for (std::int32_t y = rows.begin; y < rows.end; ++y) {
      const ResampledAxis::Taps h = of.down.taps(y);
      const float down = ResampledAxis::weight_of<float>(h, i);
      for (std::int32_t x = columns.begin; x < columns.end; ++x) {
        const std::int64_t pixel = (image * of.down.out + y) * of.across.out + x, label = view.label(pixel);
        if (label == of.ignored || label < 0 || label >= of.classes) continue;
        const ResampledAxis::Taps w = of.across.taps(x);
        const float p = math::exp(ResizedPixel<T>(of, image, h, w)(k) - what.log_sums[pixel]);
        const float weight = view.weight(label);
        float g = scale * ((kept * weight + smoothed * all_weights) * p - smoothed * own_weight);
        if (k == label) g -= scale * kept * weight;
        if (what.dice != 0) {
          const float slope = others + (k == label ? slopes.of_label(k) : 0.0F);
          g += upstream * p * (slope - what.means[pixel]);
        }
        sum += down * ResampledAxis::weight_of<float>(w, j) * g;
      }
    }
    static_cast<T*>(what.dlogits)[e] = static_cast<T>(sum);
  }
};

std::int64_t warps_for(std::int64_t pixels) { return divide_up(pixels * warp_size, 256); }

}  // namespace

void pixel_losses(Stream stream, DType type, const LabelledPixels& pixels, const PixelLosses& to) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, warps_for(pixels.pixels()), Losses<T, true>{.view = {pixels}, .to = to});
  });
}

void predict_pixels(Stream stream, DType type, const LabelledPixels& pixels, const PixelLosses& to) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, warps_for(pixels.pixels()), Losses<T, false>{.view = {pixels}, .to = to});
  });
}

void pixel_class_sums(Stream stream, DType type, const LabelledPixels& pixels, const float* log_sums, std::int64_t run_,
                      float* partial) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(pixels.pixels(), run_),
        ClassSums<T>{.view = {pixels}, .log_sums = log_sums, .run = run_, .partial = partial});
  });
}

void finish_pixel_loss(Stream stream, const FinishedPixelLoss& what) { run(stream, 1, Finish{what}); }

void pixel_gradients(Stream stream, DType type, const LabelledPixels& pixels, const PixelGradients& what) {
  const std::int64_t logits = pixels.images * pixels.down.extent * pixels.across.extent * pixels.classes;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, warps_for(pixels.pixels()), Statistics<T>{.view = {pixels}, .what = what});
    run(stream, divide_up(logits, Gradient<T>::threads), Gradient<T>{.view = {pixels}, .what = what});
  });
}

}  // namespace lacuna::cuda
