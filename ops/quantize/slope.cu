#include "ops/quantize/slope_cuda.h"

#include "ops/cuda/elements.h"

namespace lacuna::cuda {
namespace {

template <class T>
struct EncodeSlopes {
  static constexpr int threads = 256;
  Slopes levels;
  Kept<T> values;
  std::uint8_t* bytes;  // [ceil(count / 4)]
  std::int64_t count;

  LACUNA_DEVICE void operator()(const Block<EncodeSlopes>& block) const {
    const std::int64_t first = block.global_thread() * 8;
    if (first >= count) return;
    const Eight eight = values.at(first);
    std::uint32_t both = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      std::uint32_t level = 0;
#pragma unroll
      for (int t = 0; t < 3; ++t) level += eight[i] >= levels.thresholds[t] ? 1U : 0U;  // none for NaN
      if (first + i < count) both |= level << (2 * i);
    }
    bytes[first / 4] = static_cast<std::uint8_t>(both);
    if (first + 4 < count) bytes[first / 4 + 1] = static_cast<std::uint8_t>(both >> 8);
  }
};

template <class T>
struct DecodeSlopes {
  static constexpr int threads = 256;
  Slopes levels;
  const std::uint8_t* bytes;
  Written<T> out;
  std::int64_t first_element, count;

  LACUNA_DEVICE void operator()(const Block<DecodeSlopes>& block) const {
    const std::int64_t first = block.global_thread() * 8;
    if (first >= count) return;
    Eight eight{};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (first + i >= count) break;
      const std::int64_t element = first_element + first + i;
      const std::uint32_t level = static_cast<std::uint32_t>(bytes[element / 4]) >> (element % 4 * 2) & 3U;
      eight[i] = level < 2 ? levels.points[level == 0 ? 0 : 1] : levels.points[level == 2 ? 2 : 3];
    }
    out.set(first, eight);
  }
};

}  // namespace

void encode_slopes(Stream stream, DType type, const Slopes& levels, const void* values, std::int64_t count,
                   std::uint8_t* bytes) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(count, 8 * EncodeSlopes<T>::threads),
        EncodeSlopes<T>{.levels = levels, .values = Kept<T>(values, count), .bytes = bytes, .count = count});
  });
}

void decode_slopes(Stream stream, DType type, const Slopes& levels, const std::uint8_t* bytes, std::int64_t first,
                   std::int64_t count, void* out) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(count, 8 * DecodeSlopes<T>::threads),
        DecodeSlopes<T>{
            .levels = levels, .bytes = bytes, .out = Written<T>(out, count), .first_element = first, .count = count});
  });
}

}  // namespace lacuna::cuda
