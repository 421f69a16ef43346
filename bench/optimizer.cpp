// A step of each optimizer over 86 million parameters (ViT-B's), against the machine's copy bandwidth in the same run.
#include "optim/optimizer.h"
#include "bench/bench.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

namespace {

using namespace lacuna;

constexpr std::int64_t matrices = 21, rows = 2000, columns = 2048;  // 86,016,000 parameters

struct Matrices : Module {
  Matrices() : Module(ModelContext{}) {
    for (std::int64_t i = 0; i < matrices; ++i)
      weights.push_back(std::make_unique<Parameter>(*this, fmt::format("weight{}", i), Shape{rows, columns},
                                                    [](const Tensor& tensor, RandomStream) { tensor.fill(0.02); }));
  }
  std::vector<std::unique_ptr<Parameter>> weights;  // each [rows, columns]
};

/// Bytes read and written a second by a copy of memory on all threads.
double copy_bandwidth() {
  const Tensor from = Tensor::full({matrices * rows, columns}, 1, DType::f32, Device::cpu);
  const Tensor to = Tensor::zeros(from.shape(), DType::f32, Device::cpu);
  const double seconds = bench::seconds([&] {
    parallel_for(
        from.bytes(), 0,
        [&](std::int64_t begin, std::int64_t end) {
          std::memcpy(to.raw() + begin, from.raw() + begin, static_cast<std::size_t>(end - begin));
        },
        4096);
  });
  return 2 * static_cast<double>(from.bytes()) / seconds;
}

void measure(std::string_view label, std::string_view name, const SettingValues& settings, double copy) {
  Matrices model;
  const auto optimizer = make_optimizer(name, settings, model);
  for (Parameter* parameter : model.parameters())
    parameter->set_grad(Tensor::full(parameter->shape(), 0.001, DType::f32, Device::cpu, Purpose::gradients));
  optimizer->step(1e-3);
  Ledger& account = ledger(Device::cpu);
  account.reset_peak();
  const std::int64_t before = account.total();
  const double seconds = bench::seconds([&] { optimizer->step(1e-3); });
  // Gradient read, parameter and each state read and written.
  const auto states = static_cast<std::int64_t>(optimizer->state().size()) / matrices - 1;
  const std::int64_t bytes_each = 4 + 8 + 8 * states;
  const double rate = static_cast<double>(bytes_each * model.parameter_count()) / seconds;
  fmt::print("{:<14} {:>8.1f} ms  {:>2} B/parameter  {:>6.2f} GB/s  {:>5.2f} x copy  temporaries {} B\n", label,
             seconds * 1e3, bytes_each, rate / 1e9, rate / copy, account.peak() - before);
}

}  // namespace

int main() {
  const double copy = copy_bandwidth();
  fmt::print("{} threads, {} parameters; copy {:.2f} GB/s (read and written)\n", threads(), matrices * rows * columns,
             copy / 1e9);
  measure("sgd", "sgd", {}, copy);
  measure("sgd momentum", "sgd", {{"momentum", 0.9}}, copy);
  measure("sgd nesterov", "sgd", {{"momentum", 0.9}, {"nesterov", true}}, copy);
  measure("adamw", "adamw", {}, copy);
  fmt::print("copy again {:.2f} GB/s\n", copy_bandwidth() / 1e9);
}
