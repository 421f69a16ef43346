#include "ops/quantize/sign_mask_cuda.h"

#include "ops/cuda/elements.h"

namespace lacuna::cuda {
namespace {

/// A thread a byte.
template <class T>
struct PackSigns {
  static constexpr int threads = 256;
  Kept<T> values;
  std::uint8_t* bits;
  std::int64_t count;

  LACUNA_DEVICE void operator()(const Block<PackSigns>& block) const {
    const std::int64_t first = block.global_thread() * 8;
    if (first >= count) return;
    const Eight eight = values.at(first);  // 0 behind the last
    std::uint32_t byte = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) byte |= (eight[i] > 0 ? 1U : 0U) << i;
    bits[first / 8] = static_cast<std::uint8_t>(byte);
  }
};

template <class T>
struct MaskValues {
  static constexpr int threads = 256;
  Kept<T> in;
  Written<T> out;
  const std::uint8_t* bits;
  std::int64_t first_bit, count;
  bool keep_nan;

  LACUNA_DEVICE void operator()(const Block<MaskValues>& block) const {
    const std::int64_t first = block.global_thread() * 8;
    if (first >= count) return;
    const std::int64_t bit = first_bit + first, last = first_bit + count - 1;
    std::uint32_t own = bits[bit / 8];
    if (bit % 8 != 0 && bit / 8 < last / 8) own |= static_cast<std::uint32_t>(bits[bit / 8 + 1]) << 8;
    own >>= bit % 8;
    Eight eight = in.at(first);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const bool stays = (own >> i & 1U) != 0 || (keep_nan && eight[i] != eight[i]);
      eight[i] = stays ? eight[i] : 0.0F;
    }
    out.set(first, eight);
  }
};

}  // namespace

void pack_sign_bits(Stream stream, DType type, const void* values, std::int64_t count, std::uint8_t* bits) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(count, 8 * PackSigns<T>::threads),
        PackSigns<T>{.values = Kept<T>(values, count), .bits = bits, .count = count});
  });
}

void apply_sign_bits(Stream stream, DType type, const ApplySignBits& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(what.count, 8 * MaskValues<T>::threads),
        MaskValues<T>{.in = Kept<T>(what.in, what.count),
                      .out = Written<T>(what.out, what.count),
                      .bits = what.bits,
                      .first_bit = what.first,
                      .count = what.count,
                      .keep_nan = what.keep_nan});
  });
}

}  // namespace lacuna::cuda
