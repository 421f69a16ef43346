#include "ops/quantize/slope.h"

#include "core/parallel.h"
#include "ops/quantize/quantize_kernels.h"

#include <algorithm>

namespace lacuna::quant {
namespace {

constexpr std::int64_t per_byte = 4, serial_below = 65536;

template <class T>
void encode_on_cpu(const Tensor& values, const SlopeLevels& levels, const Tensor& bytes) {
  const T* const x = values.data<T>();
  auto* const out = bytes.data<std::uint8_t>();
  const float low = levels.thresholds[0], middle = levels.thresholds[1], high = levels.thresholds[2];
  parallel_for(
      values.count(), serial_below,
      [&](std::int64_t begin, std::int64_t end) {
        const auto level = [&](std::int64_t i) {
          const auto v = static_cast<float>(to_compute(x[i]));
          return (v >= low ? 1 : 0) + (v >= middle ? 1 : 0) + (v >= high ? 1 : 0);
        };
        const std::int64_t whole = begin + (end - begin) / per_byte * per_byte;
        for (std::int64_t i = begin; i < whole; i += per_byte)
          out[i / per_byte] =
              static_cast<std::uint8_t>(level(i) | level(i + 1) << 2 | level(i + 2) << 4 | level(i + 3) << 6);
        int rest = 0;
        for (std::int64_t i = whole; i < end; ++i) rest |= level(i) << (2 * (i - whole));
        if (whole < end) out[whole / per_byte] = static_cast<std::uint8_t>(rest);
      },
      per_byte);
}

template <class T>
void decode_on_cpu(const Tensor& bytes, const SlopeLevels& levels, std::int64_t begin, const Tensor& out) {
  const auto* const in = bytes.data<std::uint8_t>();
  T* const y = out.data<T>();
  std::array<T, 4> points;
  std::ranges::transform(levels.points, points.begin(), [](float point) { return static_cast<T>(point); });
  parallel_for(out.count(), serial_below, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      const std::int64_t element = begin + i;
      y[i] = points[static_cast<std::size_t>(in[element / per_byte] >> (2 * (element % per_byte)) & 3)];
    }
  });
}

const RegisterKernel cpu_encode{
    encode_slopes, DeviceKind::cpu, [](const Tensor& values, const SlopeLevels& levels, const Tensor& bytes) {
      with_float_type(values.dtype(), [&]<class T>(Type<T>) { encode_on_cpu<T>(values, levels, bytes); });
    }};
const RegisterKernel cpu_decode{
    decode_slopes, DeviceKind::cpu,
    [](const Tensor& bytes, const SlopeLevels& levels, std::int64_t begin, const Tensor& out) {
      with_float_type(out.dtype(), [&]<class T>(Type<T>) { decode_on_cpu<T>(bytes, levels, begin, out); });
    }};

}  // namespace

Tensor quantize_slopes(const Tensor& values, const SlopeLevels& levels) {
  const std::int64_t count = values.count();
  Tensor bytes = Tensor::empty({(count + per_byte - 1) / per_byte}, DType::u8, values.device(), Purpose::saved);
  encode_slopes(values.device(), values, levels, bytes);
  return bytes;
}

void dequantize_slopes(const Tensor& bytes, const SlopeLevels& levels, std::int64_t begin, std::int64_t end,
                       const Tensor& out) {
  expect(0 <= begin && begin <= end && (end + per_byte - 1) / per_byte <= bytes.count() && out.count() == end - begin,
         "slopes: elements [{}, {}) of {} bytes do not fit an output of {}", begin, end, bytes.count(), out.shape());
  decode_slopes(out.device(), bytes, levels, begin, out);
}

}  // namespace lacuna::quant
