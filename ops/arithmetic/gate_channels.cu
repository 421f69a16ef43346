#include "ops/arithmetic/gate_channels_cuda.h"

#include "core/block.h"
#include "ops/cuda/elements.h"

namespace lacuna::cuda {
namespace {

/// A thread has eight channels of a row.
template <class T>
struct Gate {
  static constexpr int threads = 256;
  ChannelGate what;
  Kept<T> x, gate;
  Written<T> y;
  LACUNA_DEVICE void operator()(const Block<Gate>& block) const {
    const std::int64_t units = (what.channels + 7) / 8, row = block.global_thread() / units;
    if (row >= what.rows) return;
    const std::int64_t c = block.global_thread() % units * 8;
    Eight values = x.at_row(row, what.channels, c);
    const Eight factors = gate.at_row((what.first_row + row) / what.pixels, what.channels, c);
#pragma unroll
    for (int k = 0; k < 8; ++k) values[k] *= factors[k];
    y.set_row(row, what.channels, c, values);
  }
};

/// A block has a stripe of the channels of an image.
template <class T>
struct Gradient {
  static constexpr int threads = 256, stripe = 64, beside = stripe / 8, groups = threads / beside;
  struct Shared {
    float sums[groups][stripe];
  };
  ChannelGateGradient what;
  Kept<T> dy, x;
  T* dgate;
  LACUNA_DEVICE void operator()(const Block<Gradient>& block) const {
    const std::int64_t stripes = (what.channels + stripe - 1) / stripe;
    const std::int64_t image = block.index() / stripes, begin = block.index() % stripes * stripe;
    const int unit = block.thread() % beside, group = block.thread() / beside;
    Eight sum{};
    if (begin + unit * 8 < what.channels)
      for (std::int64_t pixel = group; pixel < what.pixels; pixel += groups) {
        const Eight gradients = dy.at_row(image * what.pixels + pixel, what.channels, begin + unit * 8);
        const Eight values = x.at_row(image * what.pixels + pixel, what.channels, begin + unit * 8);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum[k] += gradients[k] * values[k];
      }
#pragma unroll
    for (int k = 0; k < 8; ++k) block.shared().sums[group][unit * 8 + k] = sum[k];
    block.sync();
    const std::int64_t c = begin + block.thread();
    if (block.thread() >= stripe || c >= what.channels) return;
    float total = 0;
    for (int g = 0; g < groups; ++g) total += block.shared().sums[g][block.thread()];
    dgate[image * what.channels + c] = static_cast<T>(total);
  }
};

}  // namespace

void gate_channels(Stream stream, DType type, const ChannelGate& what) {
  const std::int64_t units = divide_up(what.channels, 8);
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(what.rows * units, Gate<T>::threads),
        Gate<T>{.what = what, .x = {what.x, 0}, .gate = {what.gate, 0}, .y = {what.y, 0}});
  });
}

void gate_channels_gradient(Stream stream, DType type, const ChannelGateGradient& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, what.images * divide_up(what.channels, Gradient<T>::stripe),
        Gradient<T>{.what = what, .dy = {what.dy, 0}, .x = {what.x, 0}, .dgate = static_cast<T*>(what.dgate)});
  });
}

}  // namespace lacuna::cuda
