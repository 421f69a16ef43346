// Benchmark of GPU kernels relative to the same card's copy and matrix product rates in the same run, as JSON on
// standard output. Times are medians between events; tensors are several times larger than the L2 cache.
//
//   bench_gpu_kernels ceilings|kernels
#include "bench/bench.h"
#include "bench/matrices.h"
#include "core/backend.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/curves/activation.h"
#include "ops/curves/activation_kernels.h"
#include "ops/curves/dropout.h"
#include "ops/curves/softmax.h"
#include "ops/formulas.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/layer_norm.h"
#include "ops/products/gemm.h"
#include "ops/quantize/quantize.h"
#include "optim/optimizer.h"

#include <cuda_runtime.h>
#include <fmt/core.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <string_view>

namespace {

using namespace lacuna;
using Json = nlohmann::ordered_json;

constexpr int runs = 15;
constexpr std::int64_t rows = 1 << 17, width = 1024;  // 256 MiB in bf16

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

class Event {
 public:
  Event() { check(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(Stream stream) { check(cudaEventRecord(event_, stream)); }
  double seconds_since(const Event& begin) {
    check(cudaEventSynchronize(event_));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.event_, event_));
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// The median time of `f` on the device, after two warm-up runs.
template <class F>
double device_seconds(const F& f) {
  const Stream stream = stream_of(Device::cuda);
  Event begin, end;
  std::vector<double> times;
  for (int run = -2; run < runs; ++run) {
    begin.record(stream);
    f();
    end.record(stream);
    const double time = end.seconds_since(begin);
    if (run >= 0) times.push_back(time);
  }
  return bench::median(times);
}

Tensor drawn(const Shape& shape, DType dtype, std::uint64_t seed = 1) {
  const RandomStream stream{.seed = seed, .step = 0, .site = 0};
  const std::int64_t part =
      std::min<std::int64_t>(shape.count(), 1 << 20);  // drawn once and repeated, because the host is slow
  std::vector<float> values(static_cast<std::size_t>(part));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 4 * stream.uniform(i) - 2;
  const Tensor once = Tensor::from(std::span<const float>(values), {part}, dtype, Device::cuda);
  const Tensor all = Tensor::empty(shape, dtype, Device::cuda);
  const Tensor flat = all.reshape({shape.count()});
  for (std::int64_t i = 0; i + part <= shape.count(); i += part) flat.leading(i, i + part).copy_from(once);
  return all;
}

double copy_rate() {
  const Tensor from = drawn({rows, width}, DType::bf16), to = empty_like(from);
  return 2 * static_cast<double>(from.bytes()) / device_seconds([&] { to.copy_from(from); });
}

double product_rate() {
  constexpr std::int64_t n = 8192;
  const Tensor a = drawn({n, n}, DType::bf16), b = drawn({n, n}, DType::bf16, 2), c = empty_like(a);
  return 2.0 * n * n * n / device_seconds([&] { gemm(Matrix(a), Matrix(b), Matrix(c)); });
}

/// The kernels in the order of measurement.
class Kernels {
 public:
  explicit Kernels(double copy) : copy_(copy) {}

  /// `bytes`: the minimal reads and writes.
  template <class F>
  void add(std::string_view name, std::int64_t bytes, const F& f) {
    const double seconds = device_seconds(f), rate = static_cast<double>(bytes) / seconds;
    all_.push_back({{"name", name}, {"bytes", bytes}, {"seconds", seconds}, {"rate", rate}, {"of_copy", rate / copy_}});
  }

  /// `passes`: the minimal number of reads and writes of a tensor of x's size in forward and backward; 0: not measured.
  template <class Op>
  void add_op(std::string_view name, const Op& op, const std::vector<Tensor>& inputs, int forward_passes,
              int backward_passes) {
    std::vector<Tensor> extra_outputs;
    const auto operation = std::make_shared<const Bound<Op>>(op);
    Tensor y = operation->forward(inputs, extra_outputs).front();
    const bench::KeptTensors kept(Op::saves, inputs, y, extra_outputs);
    InputSet wanted;
    for (int i = 0; i < static_cast<int>(inputs.size()); ++i) wanted.insert(i);
    const std::int64_t pass = y.bytes();
    const std::string title(name);
    add(title, forward_passes * pass, [&] {
      std::vector<Tensor> statistics;
      y = operation->forward(inputs, statistics).front();
    });
    if (backward_passes == 0) return;
    Tensor dy = y.clone();
    add(title + " backward", backward_passes * pass, [&] {
      Grads grads(inputs.size(), wanted);
      op.backward(std::move(dy), Saved<Op>(kept), grads);
      dy = grads[0];
    });
  }

  Json json() const { return all_; }

 private:
  double copy_;
  Json all_ = Json::array();
};

void add_quantizers(Kernels& kernels, const Tensor& x) {
  const Tensor out = empty_like(x);
  for (const int bits : {8, 4, 2})
    for (const std::string_view rounding : {"stochastic", "dithered"}) {
      const quant::QuantConfig config{bits, {}, rounding};
      quant::QuantizedTensor codes = quant::quantize(x, config, 1);
      const std::int64_t bytes = x.bytes() + codes.bytes.bytes();
      const std::string name = fmt::format("{} bits, {}", bits, rounding);
      kernels.add("quantize to " + name, bytes, [&] {
        codes = {};
        codes = quant::quantize(x, config, 1);
      });
      kernels.add("dequantize " + name, bytes, [&] { quant::dequantize(codes, 0, x.count(), out); });
    }
  const quant::QuantConfig config{4, {}, "dithered"};
  const Operand codes(QuantizedForm{quant::quantize(x, config, 1)}, x.shape(), x.dtype(), x.device(), {}, {});
  const std::int64_t code_bytes = codes.as<QuantizedForm>()->values.bytes.bytes();
  kernels.add("gelu backward from 4 bits", 2 * x.bytes() + code_bytes,
              [&] { curve_backward<formula::GeluErf>(x.device(), codes, x, out); });
}

void add_optimizer(Kernels& kernels) {
  bench::Matrices model(21, {2000, 2048}, Device::cuda);
  const auto optimizer = make_optimizer("adamw", {}, model, {});
  std::int64_t bytes = 0;
  for (const Parameter* parameter : model.parameters()) bytes += 7 * parameter->tensor().bytes();
  kernels.add("adamw", bytes, [&] { optimizer->step(1e-3); });
}

Json measure_kernels() {
  const double copy = copy_rate();
  Kernels kernels(copy);
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const std::string type = fmt::format(" {}", name_of(dtype));
    const Tensor x = drawn({rows, width}, dtype);
    const Tensor vector = Tensor::full({width}, 1, DType::f32, Device::cuda);
    kernels.add_op("add" + type, Add{}, {x, x.clone()}, 3, 0);
    kernels.add_op("gelu" + type, Gelu{}, {x}, 2, 3);
    kernels.add_op("relu" + type, Relu{}, {x}, 2, 3);
    kernels.add_op("layer_norm" + type, LayerNorm{}, {x, vector, vector}, 2, 3);
    kernels.add_op("softmax" + type, Softmax{}, {x}, 2, 3);
    kernels.add_op("dropout" + type, Dropout{.p = 0.1, .stream = {}}, {x}, 2, 2);
    // Statistics need a separate pass over x, and parameter gradients one over x and dy.
    kernels.add_op("batch_norm" + type, BatchNorm{}, {x.reshape({rows / 1024, 32, 32, width}), vector, vector}, 3, 5);
    if (dtype == DType::bf16) add_quantizers(kernels, x);
  }
  add_optimizer(kernels);
  return {{"copy_bytes_per_second", copy}, {"kernels", kernels.json()}};
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view part = count == 2 ? arguments[1] : "";
  if (part != "ceilings" && part != "kernels") {
    fmt::print(stderr, "usage: bench_gpu_kernels ceilings|kernels\n");
    return 2;
  }
  try {
    const Json json = part == "kernels" ? measure_kernels()
                                        : Json{{"device", backend(Device::cuda).name(0)},
                                               {"copy_bytes_per_second", copy_rate()},
                                               {"product_flops_per_second", product_rate()}};
    fmt::print("{}\n", json.dump(2));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
