// Quantizing and dequantizing take their scratch from the ledger, on `meta` as on the CPU.
#include "core/ledger.h"
#include "core/parallel.h"
#include "ops/quantize/quantize.h"
#include "tests/ops/quantized_values.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

std::atomic<std::int64_t> heap_bytes = 0;  // asked for so far, by all threads

void* counted_allocation(std::size_t bytes, std::size_t alignment) {
  heap_bytes += static_cast<std::int64_t>(bytes);
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Replaces the program's operator new, and by that the library's.
void* operator new(std::size_t bytes) { return counted_allocation(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted_allocation(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace lacuna {
namespace {

using quant::Grouping;
using quant::QuantConfig;
using quant::QuantizedTensor;

struct Case {
  Shape shape;
  QuantConfig config;
};
/// Configurations whose scratch grows with the tensor: channel means, tables and observations of columns.
std::vector<Case> cases() {
  return {{{6, 50, 1536}, quant::min_error_config(2, {.size = 768})},
          {{6, 50, 1000}, quant::min_error_config(2, {.size = 500})},
          {{300, 1024}, quant::min_error_config(3, {.size = 1023})},
          {{64, 4096}, {4, {Grouping::Kind::columns, 16}, "dithered"}},
          {{64, 4096}, {4, {Grouping::Kind::columns, 1}, "stochastic"}},
          {{8, 12, 30, 30}, {8, {Grouping::Kind::columns, 900, 3}, "dithered"}}};
}

/// The ledger's peak above what is held while `f` runs.
template <class F>
std::int64_t peak_of(Device device, const F& f) {
  ledger(device).reset_peak();
  const std::int64_t before = ledger(device).total();
  f();
  return ledger(device).peak() - before;
}

constexpr std::int64_t elements_per_call = 4096, slots = 3;

struct Peaks {
  std::int64_t quantize, dequantize, blocks;
  bool operator==(const Peaks&) const = default;
};
Peaks peaks(const Case& of, Device device) {
  const Tensor x = Tensor::full(of.shape, 1.5, DType::f32, device), out = empty_like(x);
  QuantizedTensor quantized;
  Peaks peaks{};
  peaks.quantize = peak_of(device, [&] { quantized = quant::quantize(x, of.config, 1); });
  peaks.dequantize = peak_of(device, [&] {
    quant::dequantize(quantized, 100, x.count() - 7, Tensor::empty({x.count() - 107}, DType::f32, device));
  });
  peaks.blocks = peak_of(device, [&] { quant::block_dequantizer(quantized, elements_per_call, slots); });
  return peaks;
}

}  // namespace

TEST_CASE("quantize: the ledger's peaks on meta are those on the CPU") {
  const int before = threads();
  set_threads(2);
  for (const Case& of : cases()) {
    CAPTURE(to_string(of.shape));
    CHECK(peaks(of, Device::meta) == peaks(of, Device::cpu));
  }
  set_threads(before);
}

TEST_CASE("block_dequantizer: calls allocate neither tensors nor heap memory") {
  for (const Case& of : cases()) {
    CAPTURE(to_string(of.shape));
    const Tensor x = test::tensor_of(test::normal_values(of.shape.count(), 4)).reshape(of.shape), out = empty_like(x);
    const QuantizedTensor quantized = quant::quantize(x, of.config, 1);
    const quant::BlockDequantizer dequantize = quant::block_dequantizer(quantized, elements_per_call, slots);
    const std::int64_t before = heap_bytes;
    const std::int64_t peak = peak_of(Device::cpu, [&] {
      for (std::int64_t begin = 0; begin < x.count(); begin += elements_per_call)
        dequantize(begin, std::min(x.count(), begin + elements_per_call), out.raw() + begin * size_of(x.dtype()),
                   begin / elements_per_call % slots);
    });
    CHECK(heap_bytes == before);
    CHECK(peak == 0);
    CHECK(out.to_vector() == test::dequantized(quantized));
  }
}

TEST_CASE("quantize, dequantize: heap memory does not grow with the tensor") {
  constexpr std::int64_t bookkeeping = 16384;  // tensors, ledger entries, threads
  for (const Case& of : cases()) {
    CAPTURE(to_string(of.shape));
    const Tensor x = test::tensor_of(test::normal_values(of.shape.count(), 4)).reshape(of.shape), out = empty_like(x);
    quant::dequantize(quant::quantize(x, of.config, 1), 0, x.count(), out);  // storage is allocated the first time
    const std::int64_t before = heap_bytes;
    const QuantizedTensor quantized = quant::quantize(x, of.config, 1);
    quant::dequantize(quantized, 0, x.count(), out);
    CHECK(heap_bytes - before < bookkeeping);
  }
}

}  // namespace lacuna
