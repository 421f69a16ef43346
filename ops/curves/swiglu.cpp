#include "ops/curves/swiglu.h"

#include "core/parallel.h"
#include "ops/formulas.h"
#include "ops/row_blocks.h"

namespace lacuna {
namespace {

const RegisterOp<SwiGlu> swiglu;

/// Calls `f(row)` for rows of `width` elements.
template <class F>
void for_rows(std::int64_t rows, std::int64_t width, const F& f) {
  constexpr std::int64_t serial_below = 16384;  // elements
  parallel_for(rows, serial_below / std::max<std::int64_t>(1, width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) f(row);
  });
}

template <class T>
void forward_on_cpu(const Tensor& x, const Tensor& y) {
  const std::int64_t width = y.shape().back();
  const T* const in = x.data<const T>();
  T* const out = y.data<T>();
  for_rows(y.rows(), width, [&](std::int64_t row) {
    const T *const a = in + 2 * row * width, *const b = a + width;
    T* const to = out + row * width;
#pragma GCC ivdep
    for (std::int64_t j = 0; j < width; ++j)
      to[j] = static_cast<T>(formula::Silu{}(to_compute(a[j])) * to_compute(b[j]));
  });
}

template <class T>
void backward_on_cpu(const RowBlock& block, const Tensor& dy, const Tensor& dx) {
  const std::int64_t width = dy.shape().back();
  const T* const in = block.values<T>();
  const T* const from = dy.data<const T>() + block.begin * width;
  T* const out = dx.data<T>() + 2 * block.begin * width;
  for_rows(block.end - block.begin, width, [&](std::int64_t row) {
    const T *const a = in + 2 * row * width, *const b = a + width, *const g = from + row * width;
    T *const da = out + 2 * row * width, *const db = da + width;
#pragma GCC ivdep
    for (std::int64_t j = 0; j < width; ++j) {
      const auto gate = to_compute(a[j]), gradient = to_compute(g[j]);
      da[j] = static_cast<T>(formula::SiluBackward{}(gradient * to_compute(b[j]), gate));
      db[j] = static_cast<T>(gradient * formula::Silu{}(gate));
    }
  });
}

const RegisterKernel cpu_forward{swiglu_forward, DeviceKind::cpu, [](const Tensor& x, const Tensor& y) {
                                   with_float_type(y.dtype(), [&]<class T>(Type<T>) { forward_on_cpu<T>(x, y); });
                                 }};

// On meta it allocates what row blocks are decoded into.
const RegisterKernel cpu_backward{
    swiglu_backward, {DeviceKind::cpu, DeviceKind::meta}, [](const Operand& x, const Tensor& dy, const Tensor& dx) {
      with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
        for_each_row_block(x, dy.rows(), [&](const RowBlock& block) { backward_on_cpu<T>(block, dy, dx); });
      });
    }};

}  // namespace

Tensor SwiGlu::forward(std::span<const Tensor> inputs) const {
  const Shape& shape = inputs[x].shape();
  expect(shape.rank() > 0 && shape.back() % 2 == 0, "swiglu expects an even last axis, got {}", shape);
  std::vector<std::int64_t> extents(shape.begin(), shape.end());
  extents.back() /= 2;
  Tensor y = Tensor::empty(Shape(std::span<const std::int64_t>(extents)), inputs[x].dtype(), inputs[x].device());
  swiglu_forward(y.device(), inputs[x], y);
  return y;
}
void SwiGlu::backward(const Tensor& dy, const Saved<SwiGlu>& saved, Grads& grads) const {
  grads[x] = Tensor::empty(saved.shape<input(x)>(), dy.dtype(), dy.device());
  swiglu_backward(dy.device(), saved.get<input(x)>(), dy, grads[x]);
}
void SwiGlu::rematerialize(const RematInputs<SwiGlu>& from, const Tensor& out) const {
  swiglu_forward(out.device(), from.get<input(x)>(), out);
}

}  // namespace lacuna
