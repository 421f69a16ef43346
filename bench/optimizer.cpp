// Benchmark of each optimizer's step on 86 million parameters (ViT-B), relative to a copy and a read in the same run.
// `bench_optimizer [NAME [THREADS]]` measures only the optimizer NAME.
#include "optim/optimizer.h"
#include "bench/bench.h"
#include "bench/matrices.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

using namespace lacuna;

constexpr std::int64_t matrices = 21, rows = 2000, columns = 2048;  // 86,016,000 parameters

struct Measured {
  double seconds;
  std::int64_t bytes, read, temporaries;  // read plus written; read only; peak allocated within a step
};

Measured measure(std::string_view name, const OptionValues& settings, StatePrecision precision) {
  bench::Matrices model(matrices, {rows, columns});
  const auto optimizer = make_optimizer(name, settings, model, {.precision = precision});
  std::int64_t bytes = 0, read = 0, states = 0;
  for (Parameter* parameter : model.parameters()) {
    read += 2 * parameter->tensor().bytes();  // parameter and gradient
    bytes += 3 * parameter->tensor().bytes();
  }
  for (const auto& [path, tensor] : optimizer->state()) states += tensor.bytes();
  read += states;
  bytes += 2 * states;
  // LAMB stores the update in the gradient's memory between its passes: it is written, then read for its norm and again
  // to be applied, and so is the parameter.
  constexpr std::int64_t all = matrices * rows * columns * 4;
  if (name == "lamb") {
    read += 4 * all;
    bytes += 5 * all;
  }
  Ledger& account = ledger(Device::cpu);
  optimizer->step(1e-3);
  account.reset_peak();
  const std::int64_t before = account.total();
  const double seconds = bench::seconds([&] { optimizer->step(1e-3); });
  return {seconds, bytes, read, account.peak() - before};
}

struct Case {
  std::string_view label, name;
  OptionValues settings;
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

/// Bandwidth on as many floats, in GB/s: of a copy (read plus written) and of reading.
struct MemoryRates {
  double copy, reading;
};
MemoryRates memory_rates() {
  const Tensor from = Tensor::full({matrices * rows, columns}, 1, DType::f32, Device::cpu);
  return {bench::copy_rate(from, Tensor::zeros(from.shape(), DType::f32, Device::cpu)), bench::read_rate(from)};
}

void print(const Case& one, const MemoryRates& rates) {
  const Measured measured = measure(one.name, one.settings, one.precision);
  const double reached = 1e-9 * static_cast<double>(measured.bytes) / measured.seconds;
  fmt::print(
      "{:<14} {:>8.1f} ms  {:>5.1f} B/parameter  {:>6.2f} GB/s  {:>5.2f} x copy ({:.1f})  {:>5.2f} x reading ({:.1f})  "
      "temporaries {} B\n",
      one.label, measured.seconds * 1e3, static_cast<double>(measured.bytes) / (matrices * rows * columns), reached,
      reached / rates.copy, rates.copy, 1e-9 * static_cast<double>(measured.read) / measured.seconds / rates.reading,
      rates.reading, measured.temporaries);
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
  fmt::print(
      "{} threads, {} parameters; read and written a second against a copy, read a second against a reading, both\n"
      "of as many floats and just before\n",
      threads(), matrices * rows * columns);
  for (const Case& one : chosen)
    print(one, memory_rates());  // measured for each case, because memory speed varies over time
}
