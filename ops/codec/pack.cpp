#include "ops/codec/pack.h"

#include "core/parallel.h"

namespace lacuna::codec {
namespace {

constexpr std::int64_t block = 64;  // elements whose bits are gathered at once

/// Bits of `count` elements, at most 64, from the lowest on.
template <class T>
std::uint64_t signs_of(const T* values, std::int64_t count) {
  std::uint64_t bits = 0;
  for (std::int64_t i = 0; i < count; ++i) bits |= std::uint64_t{to_compute(values[i]) > 0} << i;
  return bits;
}

}  // namespace

Tensor pack_signs(const Tensor& values) {
  const std::int64_t n = values.count();
  Tensor bits = Tensor::empty({(n + 7) / 8}, DType::u8, values.device(), Purpose::saved);
  launch(values.device(), [&] {
    with_float_type(values.dtype(), [&]<class T>(Type<T>) {
      const T* const in = values.data<T>();
      auto* const out = bits.data<std::uint8_t>();
      parallel_for(
          n, 65536,
          [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; i += block) {
              const std::int64_t count = std::min(block, end - i);
              const std::uint64_t word = count == block ? signs_of(in + i, block) : signs_of(in + i, count);
              for (std::int64_t byte = 0; byte < (count + 7) / 8; ++byte)
                out[i / 8 + byte] = static_cast<std::uint8_t>(word >> (8 * byte));
            }
          },
          block);
    });
  });
  return bits;
}

}  // namespace lacuna::codec
