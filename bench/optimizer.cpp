// A step of each optimizer over 86 million parameters (ViT-B's), against the machine's copy bandwidth in the same run.
// `bench_optimizer [NAME [THREADS]]`: only that one.
#include "optim/optimizer.h"
#include "bench/bench.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
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

struct Measured {
  double seconds;
  std::int64_t bytes, temporaries;  // read and written; allocated within a step
};

Measured measure(std::string_view name, const SettingValues& settings, StatePrecision precision) {
  Matrices model;
  const auto optimizer = make_optimizer(name, settings, model, {.precision = precision});
  std::int64_t bytes = 0, states = 0;
  for (Parameter* parameter : model.parameters()) {
    parameter->set_grad(Tensor::full(parameter->shape(), 0.001, DType::f32, Device::cpu, Purpose::gradients));
    bytes += 3 * parameter->tensor().bytes();  // parameter read and written, gradient read
  }
  for (const auto& [path, tensor] : optimizer->state()) states += tensor.bytes();
  bytes += 2 * states;
  // LAMB's update lies in the gradient's space between its passes: written, and read for its norm and to be applied; so
  // is the parameter.
  if (name == "lamb") bytes += 5 * matrices * rows * columns * 4;
  Ledger& account = ledger(Device::cpu);
  optimizer->step(1e-3);
  account.reset_peak();
  const std::int64_t before = account.total();
  const double seconds = bench::seconds([&] { optimizer->step(1e-3); });
  return {seconds, bytes, account.peak() - before};
}

struct Case {
  std::string_view label, name;
  SettingValues settings;
  StatePrecision precision = StatePrecision::f32;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"sgd", "sgd", {}},
      {"sgd momentum", "sgd", {{"momentum", 0.9}}},
      {"adam", "adam", {}},
      {"adamw", "adamw", {}},
      {"adamw bf16", "adamw", {}, StatePrecision::bf16},
      {"adamw int8", "adamw", {}, StatePrecision::int8},
      {"adan", "adan", {}},
      {"lion", "lion", {}},
      {"lion int8", "lion", {}, StatePrecision::int8},
      {"lamb", "lamb", {}},
  };
  return all;
}

/// Bytes read and written a second by a copy of as many floats, in GB/s.
double copy() {
  const Tensor from = Tensor::full({matrices * rows, columns}, 1, DType::f32, Device::cpu);
  return bench::copy_rate(from, Tensor::zeros(from.shape(), DType::f32, Device::cpu));
}

void print(const Case& one, double copy_rate) {
  const Measured measured = measure(one.name, one.settings, one.precision);
  const double reached = 1e-9 * static_cast<double>(measured.bytes) / measured.seconds;
  fmt::print("{:<14} {:>8.1f} ms  {:>5.1f} B/parameter  {:>6.2f} GB/s  {:>5.2f} x copy  temporaries {} B\n", one.label,
             measured.seconds * 1e3, static_cast<double>(measured.bytes) / (matrices * rows * columns), reached,
             reached / copy_rate, measured.temporaries);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2) set_threads(std::atoi(argv[2]));
  std::vector<Case> chosen = cases();
  if (argc > 1) std::erase_if(chosen, [&](const Case& one) { return one.label != argv[1]; });
  if (chosen.empty()) {
    fmt::print(stderr, "{}: none of the optimizers here\n", argv[1]);
    return 2;
  }
  const double rate = copy();
  fmt::print("{} threads, {} parameters; copy {:.2f} GB/s (read and written)\n", threads(), matrices * rows * columns,
             rate);
  for (const Case& one : chosen) print(one, rate);
  fmt::print("copy again {:.2f} GB/s\n", copy());
}
