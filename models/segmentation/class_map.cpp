#include "models/segmentation/class_map.h"

#include "core/error.h"
#include "core/parallel.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lacuna {
namespace {

/// Places of a grid of `count` points that surround a position, and the second one's share.
struct Weighted {
  std::int64_t first, second;
  float share;
};

Weighted weights_of(double position, std::int64_t count) {
  const double at = std::max(position, 0.0);
  const auto first = std::min(static_cast<std::int64_t>(at), count - 1);
  return {first, std::min(first + 1, count - 1), static_cast<float>(at - static_cast<double>(first))};
}

/// Positions of `targets` points, each `scale` points of a grid apart.
std::vector<Weighted> positions(std::int64_t targets, double scale, std::int64_t count) {
  std::vector<Weighted> all;
  for (std::int64_t i = 0; i < targets; ++i)
    all.push_back(weights_of((static_cast<double>(i) + 0.5) * scale - 0.5, count));
  return all;
}

double ratio(std::int64_t a, std::int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

/// Starts of windows of `side` that cover `extent`, two thirds of a side apart; the last ends with it.
std::vector<std::int64_t> starts(std::int64_t extent, std::int64_t side) {
  const std::int64_t stride = (2 * side + 2) / 3;
  std::vector<std::int64_t> all;
  for (std::int64_t at = 0;; at += stride) {
    all.push_back(std::max<std::int64_t>(std::min(at, extent - side), 0));
    if (at + side >= extent) return all;
  }
}

/// Rows of the mean logits of windows, resized to the image that they are windows of.
class MeanRows {
 public:
  MeanRows(const Shown& shown, const Tensor& logits)
      : shown_(shown),
        logits_(logits),
        rows_(positions(shown.model.height, ratio(logits.shape()[1], shown.model.height), logits.shape()[1])),
        columns_(positions(shown.model.width, ratio(logits.shape()[2], shown.model.width), logits.shape()[2])) {}

  /// [resized width, C]; valid until the second next call with other rows.
  const float* row(std::int64_t y) {
    Kept& kept = kept_[static_cast<std::size_t>(y % 2)];
    if (kept.row != y) fill(y, kept);
    return kept.values.data();
  }

 private:
  struct Kept {
    std::int64_t row = -1;
    std::vector<float> values{};  // [resized width, C]
  };

  void fill(std::int64_t y, Kept& kept) const {
    const std::int64_t height = logits_.shape()[1], width = logits_.shape()[2], classes = logits_.shape()[3];
    kept.row = y;
    kept.values.assign(static_cast<std::size_t>(shown_.resized.width * classes), 0);
    std::vector<float> counts(static_cast<std::size_t>(shown_.resized.width));
    for (std::size_t n = 0; n < shown_.windows.size(); ++n) {
      const Window& window = shown_.windows[n];
      if (y < window.top || y >= window.top + shown_.model.height) continue;
      const Weighted& rows = rows_[static_cast<std::size_t>(y - window.top)];
      const float* const from = logits_.data<const float>() + static_cast<std::int64_t>(n) * height * width * classes;
      const float *const upper = from + rows.first * width * classes, *const lower =
                                                                          from + rows.second * width * classes;
      parallel_for(shown_.model.width, 64, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t x = begin; x < end; ++x) {
          const Weighted& at = columns_[static_cast<std::size_t>(x)];
          float* const to = kept.values.data() + (window.left + x) * classes;
          counts[static_cast<std::size_t>(window.left + x)] += 1;
          for (std::int64_t c = 0; c < classes; ++c) {
            const std::int64_t a = at.first * classes + c, b = at.second * classes + c;
            const float high = upper[a] + at.share * (upper[b] - upper[a]),
                        low = lower[a] + at.share * (lower[b] - lower[a]);
            to[c] += high + rows.share * (low - high);
          }
        }
      });
    }
    for (std::size_t i = 0; i < kept.values.size(); ++i)
      kept.values[i] /= counts[i / static_cast<std::size_t>(classes)];
  }

  const Shown& shown_;
  const Tensor& logits_;
  std::vector<Weighted> rows_, columns_;  // of a window in its logits
  std::array<Kept, 2> kept_{};
};

/// Writes the largest class of each of a row's pixels.
template <class T>
void largest(const float* upper, const float* lower, float share, const std::vector<Weighted>& columns,
             std::int64_t classes, T* out) {
  parallel_for(std::ssize(columns), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t x = begin; x < end; ++x) {
      const Weighted& at = columns[static_cast<std::size_t>(x)];
      const float *const a = upper + at.first * classes, *const b = upper + at.second * classes,
                         *const c = lower + at.first * classes, *const d = lower + at.second * classes;
      float most = 0;
      T best = 0;
      for (std::int64_t k = 0; k < classes; ++k) {
        const float high = a[k] + at.share * (b[k] - a[k]), low = c[k] + at.share * (d[k] - c[k]);
        const float value = high + share * (low - high);
        if (k > 0 && !(value > most)) continue;
        most = value;
        best = static_cast<T>(k);
      }
      out[x] = best;
    }
  });
}

}  // namespace

Shown::Shown(ImageSize of_image, ImageSize of_model, Showing how)
    : image(of_image), model(of_model), resized(of_model), windows{{}} {
  if (how == Showing::squash) return;
  const double down = ratio(image.height, model.height), across = ratio(image.width, model.width);
  const double factor = how == Showing::fit ? std::max(down, across) : std::min(down, across);
  const auto side = [&](std::int64_t of) {
    return std::max<std::int64_t>(1, std::llround(static_cast<double>(of) / factor));
  };
  resized = {side(image.height), side(image.width)};
  constexpr std::int64_t most_pixels = std::int64_t{1} << 28;
  if (resized.height * resized.width > most_pixels)
    reject(
        "an image of {}x{} pixels would be {}x{} for a model of {}x{}, more than {} pixels: --whole shows it at once",
        image.height, image.width, resized.height, resized.width, model.height, model.width, most_pixels);
  if (how == Showing::fit) return;
  windows.clear();
  for (const std::int64_t top : starts(resized.height, model.height))
    for (const std::int64_t left : starts(resized.width, model.width)) windows.push_back({top, left});
}

Tensor class_map(const Shown& shown, const Tensor& logits) {
  expect(logits.dtype() == DType::f32 && logits.shape().rank() == 4 && logits.shape()[0] == std::ssize(shown.windows),
         "expected logits f32 [{}, h, w, C], got {} {}", shown.windows.size(), name_of(logits.dtype()), logits.shape());
  const std::int64_t classes = logits.shape()[3];
  constexpr std::int64_t most_bytes = 256;
  Tensor out = Tensor::empty({shown.image.height, shown.image.width}, classes <= most_bytes ? DType::u8 : DType::i32,
                             Device::cpu, Purpose::data);
  const bool is_one = shown.windows.size() == 1;
  // The grid that is resized to the image: the logits of the one window, of which the image may be a part, or means.
  const ImageSize grid = is_one ? ImageSize(logits.shape()[1], logits.shape()[2]) : shown.resized;
  const ImageSize& whole = is_one ? shown.model : shown.resized;  // in pixels
  const std::vector<Weighted> rows = positions(
                                  shown.image.height,
                                  ratio(shown.resized.height, shown.image.height) * ratio(grid.height, whole.height),
                                  grid.height),
                              columns = positions(
                                  shown.image.width,
                                  ratio(shown.resized.width, shown.image.width) * ratio(grid.width, whole.width),
                                  grid.width);
  MeanRows means(shown, logits);
  const auto row = [&](std::int64_t y) {
    return is_one ? logits.data<const float>() + y * grid.width * classes : means.row(y);
  };
  for (std::int64_t y = 0; y < shown.image.height; ++y) {
    const Weighted& at = rows[static_cast<std::size_t>(y)];
    const float *const upper = row(at.first), *const lower = row(at.second);
    if (out.dtype() == DType::u8)
      largest(upper, lower, at.share, columns, classes, out.data<std::uint8_t>() + y * shown.image.width);
    else
      largest(upper, lower, at.share, columns, classes, out.data<std::int32_t>() + y * shown.image.width);
  }
  return out;
}

}  // namespace lacuna
