#include "ops/quantize/slope.h"

#include "core/parallel.h"

#include <algorithm>

namespace lacuna::quant {
namespace {

constexpr std::int64_t in_byte = 4, serial_below = 65536;

// A test finds them again: each threshold where the slopes at its two sides err alike, each place where the slope is
// the mean of those between its thresholds.
constexpr SlopeLevels gelu{{-0.499F, 0, 0.499F}, {-0.8724F, -0.2393F, 0.2393F, 0.8724F}};
constexpr SlopeLevels silu{{-0.6685F, 0, 0.6685F}, {-1.1378F, -0.3161F, 0.3161F, 1.1378F}};

}  // namespace

const SlopeLevels* slope_levels(std::string_view op) {
  if (op == "gelu") return &gelu;
  return op == "silu" ? &silu : nullptr;
}

Tensor encode_slopes(const Tensor& values, const SlopeLevels& levels) {
  const std::int64_t count = values.count();
  Tensor bytes = Tensor::empty({(count + in_byte - 1) / in_byte}, DType::u8, values.device(), Purpose::saved);
  launch(values.device(), [&] {
    with_float_type(values.dtype(), [&]<class T>(Type<T>) {
      const T* const x = values.data<T>();
      auto* const out = bytes.data<std::uint8_t>();
      const float low = levels.thresholds[0], middle = levels.thresholds[1], high = levels.thresholds[2];
      parallel_for(
          count, serial_below,
          [&](std::int64_t begin, std::int64_t end) {
            const auto level = [&](std::int64_t i) {
              const auto v = static_cast<float>(to_compute(x[i]));
              return (v >= low ? 1 : 0) + (v >= middle ? 1 : 0) + (v >= high ? 1 : 0);
            };
            const std::int64_t whole = begin + (end - begin) / in_byte * in_byte;
            for (std::int64_t i = begin; i < whole; i += in_byte)
              out[i / in_byte] =
                  static_cast<std::uint8_t>(level(i) | level(i + 1) << 2 | level(i + 2) << 4 | level(i + 3) << 6);
            int rest = 0;
            for (std::int64_t i = whole; i < end; ++i) rest |= level(i) << (2 * (i - whole));
            if (whole < end) out[whole / in_byte] = static_cast<std::uint8_t>(rest);
          },
          in_byte);
    });
  });
  return bytes;
}

void decode_slopes(const Tensor& bytes, const SlopeLevels& levels, std::int64_t begin, std::int64_t end,
                   const Tensor& out) {
  expect(0 <= begin && begin <= end && (end + in_byte - 1) / in_byte <= bytes.count() && out.count() == end - begin,
         "slopes {} to {} of {} bytes are to be decoded into {}", begin, end, bytes.count(), out.shape());
  launch(out.device(), [&] {
    with_float_type(out.dtype(), [&]<class T>(Type<T>) {
      const auto* const in = bytes.data<std::uint8_t>();
      T* const y = out.data<T>();
      std::array<T, 4> places;
      std::ranges::transform(levels.places, places.begin(), [](float place) { return static_cast<T>(place); });
      parallel_for(end - begin, serial_below, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t i = from; i < to; ++i) {
          const std::int64_t element = begin + i;
          y[i] = places[static_cast<std::size_t>(in[element / in_byte] >> (2 * (element % in_byte)) & 3)];
        }
      });
    });
  });
}

}  // namespace lacuna::quant
