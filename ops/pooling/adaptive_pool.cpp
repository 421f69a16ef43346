#include "ops/pooling/pool.h"

#include "core/parallel.h"
#include "ops/pooling/pool_kernels.h"

#include <algorithm>

namespace lacuna {
namespace {

const RegisterOp<AdaptiveAvgPool2d> adaptive_pool;

/// Places [begin, end) of an axis of `extent` that part `index` of `parts` covers.
struct Part {
  std::int64_t begin, end;
  Part(std::int64_t index, std::int64_t parts, std::int64_t extent)
      : begin(index * extent / parts), end(((index + 1) * extent + parts - 1) / parts) {}
  std::int64_t size() const { return end - begin; }
};

/// Calls `f(row, column, place, share)` for each place of each part of an image, `place` among the image's.
template <class F>
void for_shares(const AdaptiveAvgPool2d& op, const F& f) {
  for (std::int64_t i = 0; i < op.out_height; ++i)
    for (std::int64_t j = 0; j < op.out_width; ++j) {
      const Part rows(i, op.out_height, op.height), columns(j, op.out_width, op.width);
      const double share = 1 / static_cast<double>(rows.size() * columns.size());
      for (std::int64_t h = rows.begin; h < rows.end; ++h)
        for (std::int64_t w = columns.begin; w < columns.end; ++w) f(i * op.out_width + j, h * op.width + w, share);
    }
}

template <class T, class Pairs>
void add_shares(const Tensor& from, const Tensor& sums, const Tensor& to, const Pairs& pairs) {
  using S = Compute<T>;
  const Shape& shape = to.shape();
  const std::int64_t channels = shape[3], values = shape[1] * shape[2] * channels;
  const std::int64_t values_from = from.shape()[1] * from.shape()[2] * channels;
  parallel_tasks(shape[0], [&](std::int64_t image, int thread) {
    S* const sum = sums.data<S>() + thread * values;  // [h, w, C]
    std::fill_n(sum, values, S{});
    pairs([&](std::int64_t source, std::int64_t target, double share) {
      const T* const in = from.data<T>() + image * values_from + source * channels;
      for (std::int64_t c = 0; c < channels; ++c)
        sum[target * channels + c] += static_cast<S>(share) * to_compute(in[c]);
    });
    T* const out = to.data<T>() + image * values;
    for (std::int64_t i = 0; i < values; ++i) out[i] = static_cast<T>(sum[i]);
  });
}

const RegisterKernel on_cpu{
    adaptive_avg_pool, DeviceKind::cpu,
    [](const AdaptiveAvgPool2d& op, bool backward, const Tensor& from, const Tensor& sums, const Tensor& to) {
      with_float_type(to.dtype(), [&]<class T>(Type<T>) {
        add_shares<T>(from, sums, to, [&](const auto& add) {
          if (backward)
            for_shares(op, add);
          else
            for_shares(op, [&](std::int64_t part, std::int64_t place, double share) { add(place, part, share); });
        });
      });
    }};

void run(const AdaptiveAvgPool2d& op, bool backward, const Tensor& from, const Tensor& to) {
  const Shape& shape = to.shape();
  const Tensor sums = Tensor::empty({threads(), shape[1] * shape[2] * shape[3]}, compute_type(to.dtype()), to.device(),
                                    Purpose::workspace);
  adaptive_avg_pool(to.device(), op, backward, from, sums, to);
}

}  // namespace

Tensor AdaptiveAvgPool2d::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[x];
  const Shape& shape = in.shape();
  expect(shape.rank() == 4 && shape[1] == height && shape[2] == width && height > 0 && width > 0 && out_height > 0 &&
             out_width > 0,
         "{}: expected images [N, {}, {}, C] and parts, got {} and {}x{}", name, height, width, shape, out_height,
         out_width);
  Tensor y = Tensor::empty({shape[0], out_height, out_width, shape[3]}, in.dtype(), in.device());
  run(*this, false, in, y);
  return y;
}

void AdaptiveAvgPool2d::backward(Tensor dy, const Saved<AdaptiveAvgPool2d>&, Grads& grads) const {
  const Shape& shape = dy.shape();
  grads[x] = Tensor::empty({shape[0], height, width, shape[3]}, dy.dtype(), dy.device());
  run(*this, true, dy, grads[x]);
}

}  // namespace lacuna
