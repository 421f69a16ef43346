#include "ops/quantize/sign_mask.h"

#include "core/parallel.h"
#include "ops/quantize/affine.h"
#include "ops/quantize/quantize_kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

namespace lacuna::quant {
namespace {

constexpr std::int64_t word_bits = 64;

/// Sign bits of `count` elements, at most 64, from bit 0 on.
template <class T>
std::uint64_t signs_of(const T* values, std::int64_t count) {
  std::uint64_t bits = 0;
  for (std::int64_t i = 0; i < count; ++i) bits |= std::uint64_t{to_compute(values[i]) > 0} << i;
  return bits;
}

/// The bits of a type as an integer, and those of infinity: without the sign, larger bits are NaN.
template <class T>
using Bits = std::conditional_t<is_half<T>, std::uint16_t,
                                std::conditional_t<std::is_same_v<T, float>, std::uint32_t, std::uint64_t>>;
template <class T>
inline constexpr Bits<T> infinity = std::is_same_v<T, bf16>    ? 0x7f80U
                                    : std::is_same_v<T, float> ? 0x7f800000U
                                                               : static_cast<Bits<T>>(0x7ff0000000000000U);

/// Calls `f(i, word)` for elements [begin, end), bit 0 of `word` being bit `first` + i of `bytes`. Vectorizes if `f`
/// does.
template <class F>
void for_bits(const std::uint8_t* bytes, std::int64_t first, std::int64_t begin, std::int64_t end, const F& f) {
  const auto one = [&](std::int64_t i) {
    f(i, static_cast<std::uint32_t>(bytes[(first + i) / 8]) >> ((first + i) % 8));
  };
  std::int64_t i = begin;
  for (; i < end && (first + i) % 8 != 0; ++i) one(i);
  for (; i + 32 <= end; i += 32) {
    std::uint32_t word;
    std::memcpy(&word, bytes + (first + i) / 8, sizeof word);
#pragma GCC ivdep
    for (std::uint32_t bit = 0; bit < 32; ++bit) f(i + bit, word >> bit);
  }
  for (; i < end; ++i) one(i);
}

/// out[i] = in[i] if bit `first` + i is set, or if in[i] is NaN and `keep_nan`; otherwise 0.
template <bool keep_nan, class T>
void mask_values(const T* in, std::int64_t count, const std::uint8_t* bytes, std::int64_t first, T* out) {
  using B = Bits<T>;
  constexpr B all = std::numeric_limits<B>::max();
  parallel_for(count, 16384, [&](std::int64_t begin, std::int64_t end) {
    for_bits(bytes, first, begin, end, [&](std::int64_t i, std::uint32_t word) {
      const auto value = std::bit_cast<B>(in[i]);
      B mask = B{0} - static_cast<B>(word & 1U);
      if (keep_nan) mask |= (value & (all >> 1)) > infinity<T> ? all : B{0};
      out[i] = std::bit_cast<T>(static_cast<B>(value & mask));
    });
  });
}

void apply_bits(const Tensor& in, const Tensor& bits, std::int64_t first, bool keep_nan, const Tensor& out) {
  expect(out.count() == in.count() && out.dtype() == in.dtype() && 8 * bits.count() >= first + in.count(),
         "sign mask: {} values of {} from bit {} on do not fit a mask of {} bits and an output of {} values of {}",
         in.count(), name_of(in.dtype()), first, 8 * bits.count(), out.count(), name_of(out.dtype()));
  apply_sign_bits(in.device(), in, bits, first, keep_nan, out);
}

template <class T>
void pack_on_cpu(const Tensor& values, const Tensor& bits) {
  const T* const in = values.data<T>();
  auto* const out = bits.data<std::uint8_t>();
  parallel_for(
      values.count(), 65536,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; i += word_bits) {
          const std::int64_t count = std::min(word_bits, end - i);
          const std::uint64_t word = count == word_bits ? signs_of(in + i, word_bits) : signs_of(in + i, count);
          for (std::int64_t byte = 0; byte < (count + 7) / 8; ++byte)
            out[i / 8 + byte] = static_cast<std::uint8_t>(word >> (8 * byte));
        }
      },
      word_bits);
}

const RegisterKernel cpu_pack{pack_sign_bits, DeviceKind::cpu, [](const Tensor& values, const Tensor& bits) {
                                with_float_type(values.dtype(),
                                                [&]<class T>(Type<T>) { pack_on_cpu<T>(values, bits); });
                              }};
const RegisterKernel cpu_apply{
    apply_sign_bits, DeviceKind::cpu,
    [](const Tensor& in, const Tensor& bits, std::int64_t first, bool keep_nan, const Tensor& out) {
      with_float_type(in.dtype(), [&]<class T>(Type<T>) {
        const auto* const mask = bits.data<std::uint8_t>();
        if (keep_nan)
          mask_values<true>(in.data<T>(), in.count(), mask, first, out.data<T>());
        else
          mask_values<false>(in.data<T>(), in.count(), mask, first, out.data<T>());
      });
    }};

}  // namespace

void pass_where_set(const Tensor& in, const Tensor& bits, std::int64_t first, const Tensor& out) {
  apply_bits(in, bits, first, false, out);
}

void rectify(const Tensor& in, const Tensor& bits, std::int64_t first, const Tensor& out) {
  apply_bits(in, bits, first, true, out);
}

void dequantize_rectified(const QuantizedTensor& quantized, const Tensor& bits, std::int64_t begin, std::int64_t end,
                          const Tensor& out) {
  if (out.device().kind == DeviceKind::cuda && begin < end && affine_quantizer_of(quantized.config) != nullptr) {
    expect(end <= std::min(quantized.shape.count(), 8 * bits.count()) && out.count() == end - begin &&
               out.dtype() == quantized.dtype,
           "dequantize: elements [{}, {}) of {} in {} do not fit {} signs and an output of {} values in {}", begin, end,
           quantized.shape, name_of(quantized.dtype), 8 * bits.count(), out.count(), name_of(out.dtype()));
    return decode_affine_rectified(out.device(), quantized, bits, begin, end, out);
  }
  dequantize(quantized, begin, end, out);
  rectify(out, bits, begin, out);
}

void rectify(DType dtype, std::byte* values, std::int64_t count, const std::uint8_t* bits, std::int64_t first) {
  with_float_type(dtype, [&]<class T>(Type<T>) {
    T* const at = reinterpret_cast<T*>(values);
    mask_values<true>(at, count, bits, first, at);
  });
}

void unpack_signs(const std::uint8_t* bits, std::int64_t first, std::int64_t count, std::int32_t* out) {
  for_bits(bits, first, 0, count,
           [&](std::int64_t i, std::uint32_t word) { out[i] = static_cast<std::int32_t>(word & 1U); });
}

Tensor pack_signs(const Tensor& values) {
  Tensor bits = Tensor::empty({(values.count() + 7) / 8}, DType::u8, values.device(), Purpose::saved);
  pack_sign_bits(values.device(), values, bits);
  return bits;
}

}  // namespace lacuna::quant
