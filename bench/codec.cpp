// Benchmark of the affine codec against a copy of the same tensor, run alternately: time of the copy / time of the
// codec.
#include "bench/bench.h"
#include "core/random.h"
#include "ops/quantize/quantize.h"

#include <fmt/core.h>

namespace {

using namespace lacuna;
using bench::median;

constexpr int rounds = 31;

double seconds_once(const auto& f, int repeats) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) f();
  return std::chrono::duration<double>(Clock::now() - begin).count() / repeats;
}

/// Values distributed like a layer's: sums of three uniform numbers.
Tensor drawn(std::int64_t count, DType dtype) {
  const RandomStream stream{.seed = 1, .step = 0, .site = 0};
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = stream.uniform(3 * i) + stream.uniform(3 * i + 1) + stream.uniform(3 * i + 2) - 1.5F;
  return Tensor::from(std::span<const float>(values), {count / 1024, 1024}, dtype);
}

void measure(std::int64_t bytes, DType dtype) {
  const Tensor x = drawn(bytes / size_of(dtype), dtype), copy = x.clone(), out = x.clone();
  const int repeats = bytes < (8 << 20) ? 40 : 1;
  const auto run_copy = [&] {
    parallel_for(
        x.bytes(), 0,
        [&](std::int64_t begin, std::int64_t end) {
          std::memcpy(copy.raw() + begin, x.raw() + begin, static_cast<std::size_t>(end - begin));
        },
        4096);
  };
  const quant::Grouping runs{}, columns{quant::Grouping::Kind::columns, 64};
  constexpr auto dithered = "dithered", rotated = "hadamard";
  struct Case {
    std::string_view name;
    quant::QuantConfig coding;
    bool known;
    std::int64_t positions = 1;  // positions that share a mean
  };
  const Case cases[] = {{"8 bit", {8, runs, dithered}, false},
                        {"4 bit", {4, runs, dithered}, false},
                        {"2 bit", {2, runs, dithered}, false},
                        {"2 bit, rotated", {2, runs, rotated}, false},
                        {"2 bit, rotated in 1024", {2, {.size = 1024}, rotated}, false},
                        {"2 bit, rotated in 768", {2, {.size = 768}, rotated}, false},
                        {"2 bit, with means", {2, {.size = 1024}, rotated}, false, 64},
                        {"4 bit, stochastic", {4, runs}, false},
                        {"8 bit, nearest", {8, runs, "nearest"}, false},
                        {"8 bit, columns, known", {8, columns}, true},
                        {"4 bit, columns, known", {4, columns}, true},
                        {"8 bit, 32 columns, known", {8, {quant::Grouping::Kind::columns, 32}}, true},
                        {"8 bit, 8 columns, known", {8, {quant::Grouping::Kind::columns, 8}}, true},
                        {"8 bit, one group, known", {8, {quant::Grouping::Kind::columns, 1024}}, true}};
  for (const Case& c : cases) {
    const Tensor shaped = c.positions == 1 ? x : x.reshape({x.count() / c.positions / 1024, c.positions, 1024});
    const std::vector<quant::Range> ranges(static_cast<std::size_t>(quant::group_count(x.shape(), c.coding.grouping)),
                                           {-1.5F, 1.5F});
    std::vector<quant::Range> seen = ranges;
    quant::QuantizedTensor codes;
    const auto encode = [&] {
      codes = {};  // frees the previous codes, so that their memory is reused as in training
      codes = c.known ? quant::quantize(shaped, c.coding, 1, ranges, seen) : quant::quantize(shaped, c.coding, 1);
    };
    encode();
    std::vector<double> copies, encodes, decodes, encode_ratios, decode_ratios;
    for (int round = 0; round < rounds; ++round) {
      copies.push_back(seconds_once(run_copy, repeats));
      encodes.push_back(seconds_once(encode, repeats));
      decodes.push_back(seconds_once([&] { quant::dequantize(codes, 0, x.count(), out); }, repeats));
      encode_ratios.push_back(copies.back() / encodes.back());
      decode_ratios.push_back(copies.back() / decodes.back());
    }
    fmt::print("  {:<24} copy {:8.1f} us   encode {:8.1f} us, {:4.2f} x   decode {:8.1f} us, {:4.2f} x\n", c.name,
               1e6 * median(copies), 1e6 * median(encodes), median(encode_ratios), 1e6 * median(decodes),
               median(decode_ratios));
  }
}

}  // namespace

int main() {
  fmt::print("{} threads; speed as a multiple of a copy's, medians of {} alternating rounds\n", threads(), rounds);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t mebibytes : {64, 1}) {
      fmt::print("{} MiB of {}\n", mebibytes, name_of(dtype));
      measure(mebibytes << 20, dtype);
    }
}
