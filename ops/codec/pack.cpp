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

/// out[i] = f(in[i], bit `first` + i).
template <class F>
void map_with_bits(const Tensor& in, const Tensor& bits, std::int64_t first, const Tensor& out, const F& f) {
  expect(out.count() == in.count() && out.dtype() == in.dtype() && 8 * bits.count() >= first + in.count(),
         "{} values of {} were given {} bits from bit {} on, and {} of {} to write", in.count(), name_of(in.dtype()),
         8 * bits.count(), first, out.count(), name_of(out.dtype()));
  launch(in.device(), [&] {
    with_float_type(in.dtype(), [&]<class T>(Type<T>) {
      const T* const from = in.data<T>();
      T* const to = out.data<T>();
      const auto* const words = bits.data<std::uint8_t>();
      const auto one = [&](std::int64_t i) {
        to[i] = f(from[i], (words[(first + i) / 8] >> ((first + i) % 8) & 1) != 0);
      };
      parallel_for(in.count(), 16384, [&](std::int64_t begin, std::int64_t end) {
        std::int64_t i = begin;
        for (; i < end && (first + i) % 8 != 0; ++i) one(i);
        for (; i + 8 <= end; i += 8) {
          const int byte = words[(first + i) / 8];
#pragma GCC ivdep
          for (int bit = 0; bit < 8; ++bit) to[i + bit] = f(from[i + bit], (byte >> bit & 1) != 0);
        }
        for (; i < end; ++i) one(i);
      });
    });
  });
}

}  // namespace

void pass_where_set(const Tensor& in, const Tensor& bits, std::int64_t first, const Tensor& out) {
  map_with_bits(in, bits, first, out, []<class T>(T value, bool set) { return set ? value : T{}; });
}

void rectify(const Tensor& in, const Tensor& bits, std::int64_t first, const Tensor& out) {
  map_with_bits(in, bits, first, out, []<class T>(T value, bool set) {
    const auto number = to_compute(value);
    return set || number != number ? value : T{};
  });
}

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
