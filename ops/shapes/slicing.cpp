#include "ops/shapes/slicing.h"

#include "core/parallel.h"
#include "ops/arithmetic/reduce.h"
#include "ops/shapes/slicing_kernels.h"

#include <cstring>
#include <numeric>

namespace lacuna {
namespace {

const RegisterOp<Concat> concat;
const RegisterOp<Slice> slice;
const RegisterOp<Expand> expand;

/// Entries [begin, begin + extent) of `axis`.
Band band_of(const Shape& shape, int axis, std::int64_t begin, std::int64_t extent) {
  Band band{.outer = 1, .length = extent, .stride = shape[axis], .first = begin};
  for (int i = 0; i < axis; ++i) band.outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) {
    band.length *= shape[i];
    band.stride *= shape[i];
    band.first *= shape[i];
  }
  return band;
}

Shape with_extent(const Shape& shape, int axis, std::int64_t extent) {
  std::vector<std::int64_t> extents(shape.begin(), shape.end());
  extents[static_cast<std::size_t>(axis)] = extent;
  return Shape(std::span<const std::int64_t>(extents));
}

/// Calls `f(offset in whole, offset in packed, count)` for stretches that are contiguous in both.
template <class F>
void for_each_stretch(const Band& band, const F& f) {
  parallel_for(band.outer * band.length, 16384, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t run = begin / band.length, within = begin % band.length;
      const std::int64_t count = std::min(end - begin, band.length - within);
      f(run * band.stride + band.first + within, begin, count);
      begin += count;
    }
  });
}

void copy_elements(const Tensor& to, std::int64_t to_offset, const Tensor& from, std::int64_t from_offset,
                   std::int64_t count) {
  const std::int64_t size = size_of(to.dtype());
  std::memcpy(to.raw() + to_offset * size, from.raw() + from_offset * size, static_cast<std::size_t>(count * size));
}

const RegisterKernel cpu_fill_band{
    fill_band, DeviceKind::cpu, [](const Tensor& whole, const Band& band, const Tensor& packed) {
      for_each_stretch(band, [&](std::int64_t in_whole, std::int64_t in_packed, std::int64_t count) {
        copy_elements(whole, in_whole, packed, in_packed, count);
      });
    }};
const RegisterKernel cpu_take_band{
    take_band, DeviceKind::cpu, [](const Tensor& whole, const Band& band, const Tensor& packed) {
      for_each_stretch(band, [&](std::int64_t in_whole, std::int64_t in_packed, std::int64_t count) {
        copy_elements(packed, in_packed, whole, in_whole, count);
      });
    }};
const RegisterKernel cpu_add_to_band{
    add_to_band, DeviceKind::cpu, [](const Tensor& whole, const Band& band, const Tensor& packed) {
      with_float_type(whole.dtype(), [&]<class T>(Type<T>) {
        for_each_stretch(band, [&](std::int64_t in_whole, std::int64_t in_packed, std::int64_t count) {
          T* const sum = whole.data<T>() + in_whole;
          const T* const addend = packed.data<T>() + in_packed;
#pragma GCC ivdep
          for (std::int64_t i = 0; i < count; ++i) sum[i] = static_cast<T>(to_compute(sum[i]) + to_compute(addend[i]));
        });
      });
    }};

const RegisterKernel cpu_repeat{repeat_entry, DeviceKind::cpu, [](const Tensor& x, const Tensor& y) {
                                  for (std::int64_t i = 0; i < y.shape().front(); ++i) y.leading(i, i + 1).copy_from(x);
                                }};

}  // namespace

Tensor Concat::forward(std::span<const Tensor> inputs) const {
  expect(inputs.size() == extents.size(), "concat was made for {} inputs, got {}", extents.size(), inputs.size());
  const Shape& like = inputs[0].shape();
  expect(axis >= 0 && axis < like.rank(), "concat along axis {} of {}: there is no such axis", axis, like);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect(inputs[i].shape() == with_extent(like, axis, extents[i]) && inputs[i].dtype() == inputs[0].dtype(),
           "concat along axis {} expects input {} of {} in {}, got {} in {}", axis, i,
           with_extent(like, axis, extents[i]), name_of(inputs[0].dtype()), inputs[i].shape(),
           name_of(inputs[i].dtype()));
  const std::int64_t total = std::reduce(extents.begin(), extents.end());
  Tensor y = Tensor::empty(with_extent(like, axis, total), inputs[0].dtype(), inputs[0].device());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < inputs.size(); begin += extents[i++])
    fill_band(y.device(), y, band_of(y.shape(), axis, begin, extents[i]), inputs[i]);
  return y;
}
void Concat::backward(const Tensor& dy, const Saved<Concat>&, Grads& grads) const {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < extents.size(); begin += extents[i++]) {
    const int k = static_cast<int>(i);
    if (!grads.wanted(k)) continue;
    grads[k] = Tensor::empty(with_extent(dy.shape(), axis, extents[i]), dy.dtype(), dy.device());
    take_band(dy.device(), dy, band_of(dy.shape(), axis, begin, extents[i]), grads[k]);
  }
}

Tensor Slice::forward(std::span<const Tensor> inputs) const {
  const Shape& shape = inputs[x].shape();
  expect(axis >= 0 && axis < shape.rank() && shape[axis] == extent && 0 <= begin && begin <= end && end <= extent,
         "slice of [{}, {}) from {} entries of axis {} does not fit {}", begin, end, extent, axis, shape);
  Tensor y = Tensor::empty(with_extent(shape, axis, end - begin), inputs[x].dtype(), inputs[x].device());
  take_band(y.device(), inputs[x], band_of(shape, axis, begin, end - begin), y);
  return y;
}
void Slice::backward(const Tensor& dy, const Saved<Slice>&, Grads& grads) const {
  const Shape shape = with_extent(dy.shape(), axis, extent);
  const Band band = band_of(shape, axis, begin, end - begin);
  if (grads[x].defined()) {
    add_to_band(dy.device(), grads[x], band, dy);
  } else {
    grads[x] = Tensor::zeros(shape, dy.dtype(), dy.device());
    fill_band(dy.device(), grads[x], band, dy);
  }
}

Tensor Expand::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[x];
  expect(in.shape().rank() > 0 && in.shape().front() == 1 && in.dtype() == compute_type(in.dtype()),
         "expand expects [1, ...] in f32 or f64, got {} in {}", in.shape(), name_of(in.dtype()));
  Tensor y =
      Tensor::empty(with_extent(in.shape(), 0, count), in.dtype() == DType::f64 ? DType::f64 : dtype, in.device());
  repeat_entry(y.device(), in, y);
  return y;
}
void Expand::backward(const Tensor& dy, const Saved<Expand>&, Grads& grads) const {
  grads[x] = sum_over_leading(dy, with_extent(dy.shape(), 0, 1));
}

}  // namespace lacuna
