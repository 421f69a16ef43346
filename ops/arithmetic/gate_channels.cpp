#include "ops/arithmetic/gate_channels.h"

#include "core/parallel.h"
#include "ops/arithmetic/gate_channels_kernels.h"
#include "ops/operand.h"

#include <algorithm>
#include <array>

namespace lacuna {
namespace {

const RegisterOp<GateChannels> gate_channels_op;

template <class T>
void gate_on_cpu(const Tensor& x, const Tensor& gate, std::int64_t pixels, std::int64_t first_row, const Tensor& y) {
  const std::int64_t channels = gate.shape().back();
  parallel_for(y.rows(), 16384 / channels + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* const in = x.data<T>() + row * channels;
      const T* const factors = gate.data<T>() + (first_row + row) / pixels * channels;
      T* const out = y.data<T>() + row * channels;
#pragma GCC ivdep
      for (std::int64_t c = 0; c < channels; ++c) out[c] = static_cast<T>(to_compute(in[c]) * to_compute(factors[c]));
    }
  });
}

template <class T>
void gradient_on_cpu(const Tensor& dy, const Tensor& x, const Tensor& dgate) {
  using C = Compute<T>;
  constexpr std::int64_t most = 64;  // channels of a task
  const std::int64_t images = dgate.shape()[0], channels = dgate.shape()[1], blocks = (channels + most - 1) / most;
  const std::int64_t pixels = dy.count() / std::max<std::int64_t>(dgate.count(), 1);
  parallel_tasks(images * blocks, [&](std::int64_t task, std::int64_t) {
    const std::int64_t first = task % blocks * most, count = std::min(most, channels - first);
    const std::int64_t place = task / blocks * pixels * channels + first;
    std::array<C, most> sums{};
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      const T* const gradients = dy.data<T>() + place + pixel * channels;
      const T* const values = x.data<T>() + place + pixel * channels;
      for (std::int64_t c = 0; c < count; ++c)
        sums[static_cast<std::size_t>(c)] += to_compute(gradients[c]) * to_compute(values[c]);
    }
    for (std::int64_t c = 0; c < count; ++c)
      dgate.data<T>()[task / blocks * channels + first + c] = static_cast<T>(sums[static_cast<std::size_t>(c)]);
  });
}

const RegisterKernel cpu_gate{
    gate_channels, DeviceKind::cpu,
    [](const Tensor& x, const Tensor& gate, std::int64_t pixels, std::int64_t first_row, const Tensor& y) {
      with_float_type(y.dtype(), [&]<class T>(Type<T>) { gate_on_cpu<T>(x, gate, pixels, first_row, y); });
    }};
const RegisterKernel cpu_gradient{
    gate_channels_gradient, DeviceKind::cpu, [](const Tensor& dy, const Tensor& x, const Tensor& dgate) {
      with_float_type(dy.dtype(), [&]<class T>(Type<T>) { gradient_on_cpu<T>(dy, x, dgate); });
    }};

}  // namespace

Tensor GateChannels::forward(std::span<const Tensor> inputs) const {
  const Tensor &in = inputs[x], &factors = inputs[gate];
  expect(in.shape() == shape && shape.rank() > 1, "gate_channels was made for images {}, got {}", shape, in.shape());
  expect(shape.count() > 0, "gate_channels: expected one element or more, got {}", shape);
  expect(factors.shape() == Shape{shape.front(), shape.back()} && factors.dtype() == in.dtype(),
         "gate_channels: images {} in {} need a gate {} of that type, got {} in {}", shape, name_of(in.dtype()),
         Shape{shape.front(), shape.back()}, factors.shape(), name_of(factors.dtype()));
  Tensor y = empty_like(in);
  gate_channels(y.device(), in, factors, pixels(), 0, y);
  return y;
}

void GateChannels::backward(Tensor dy, const Saved<GateChannels>& saved, Grads& grads) const {
  if (grads.wanted(gate)) {
    grads[gate] = Tensor::empty({shape.front(), shape.back()}, dy.dtype(), dy.device());
    const Operand in = saved.get<input(x)>();
    const std::int64_t run = std::max<std::int64_t>(in.block_rows() / pixels(), 1);  // images decoded at a time
    for (std::int64_t first = 0; first < shape.front(); first += run) {
      const std::int64_t last = std::min(shape.front(), first + run);
      gate_channels_gradient(dy.device(), dy.leading(first, last), in.rows(first * pixels(), last * pixels()),
                             grads[gate].leading(first, last));
    }
  }
  if (grads.wanted(x)) {
    const Tensor factors = saved.get<input(gate)>().whole();
    grads[x] = reuse_or_empty(dy, dy.shape(), dy.dtype());
    gate_channels(dy.device(), dy, factors, pixels(), 0, grads[x]);
  }
}

void GateChannels::rematerialize(const RematInputs<GateChannels>& from, const Tensor& out) const {
  gate_channels(out.device(), from.get<input(x)>(), from.get<input(gate)>(), pixels(), from.first_row(), out);
}

}  // namespace lacuna
