#include "ops/cuda/elements.h"
#include "ops/quantize/hadamard_cuda.h"
#include "ops/quantize/hadamard_group.h"

namespace lacuna::cuda {
namespace {

/// A block of threads a group.
template <class T>
struct DequantizeGroup {
  static constexpr int threads = hadamard_threads;
  struct Shared {
    alignas(16) double values[longest_hadamard_group];
    float largest[threads / warp_size];
  };
  HadamardCodes from;
  PackedCodes codes;
  T* out;
  std::int64_t begin, end;

  LACUNA_DEVICE void operator()(const Block<DequantizeGroup>& block) const {
    const std::int64_t group = begin / from.size + block.index(), first = group * from.size, left = from.count - first;
    const std::int64_t count = left < from.size ? left : from.size;
    const std::uint8_t* const params = from.params + group * 4;
    const float stored = half_at(params), mean = half_at(params + 2), step = stored < 0 ? -stored : stored;
    const bool centred = from.means.values != nullptr && (params[1] & 0x80) == 0;
    float largest = 0;
    if (centred)
      for (std::int64_t i = block.thread(); i < count; i += threads) {
        const float own = from.means.of(first + i);
        largest = Larger{}(largest, own < 0 ? -own : own);
      }
    largest = joined_of_block(block, largest, block.shared().largest, Larger{});
    // No dequantized value is further from the mean than the norm of the levels.
    const float reach = largest * 0x1p-20F + (mean < 0 ? -mean : mean) * 0x1p-20F +
                        step * 0x1p-20F * static_cast<float>(1 << from.bits) * std::sqrt(static_cast<float>(count));
    if (reach > 0x1p106F)
      dequantize<double>(block, group, first, count, step, mean, centred);
    else
      dequantize<float>(block, group, first, count, step, mean, centred);
  }

 private:
  LACUNA_DEVICE static float half_at(const std::uint8_t* bytes) {
    return std::bit_cast<float>((bytes[0] | static_cast<std::uint32_t>(bytes[1]) << 8) << 16);
  }

  /// Every other four lanes store the second half first: eight lanes then reach all banks of shared memory.
  LACUNA_DEVICE static void store_halves(float* to, const float (&eight)[8], bool second_first) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool second = second_first != (half == 1);
      Pack<float, 4> pack;
#pragma unroll
      for (int j = 0; j < 4; ++j) pack[j] = second ? eight[4 + j] : eight[j];
      store_pack(to + (second ? 4 : 0), pack);
    }
  }

  template <class C>
  LACUNA_DEVICE void dequantize(const Block<DequantizeGroup>& block, std::int64_t group, std::int64_t first,
                                std::int64_t count, float step, float mean, bool centred) const {
    C* const values = reinterpret_cast<C*>(block.shared().values);
    const quant::HadamardSize shape = quant::hadamard_size(count);
    const C scale = static_cast<C>(step) * (is_covered(shape, count) ? transform_factor<C>(shape) : C(1)),
            middle = static_cast<C>((1 << from.bits) - 1) / 2;
    if (first % 8 == 0) {
      for (std::int64_t i = block.thread() * 8; i < count; i += threads * 8) {
        std::uint32_t code[8];
        codes.read(first + i, code);
        C eight[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) eight[j] = (static_cast<C>(code[j]) - middle) * scale;
        if constexpr (std::is_same_v<C, float>)
          if (i + 8 <= count) {
            store_halves(values + i, eight, block.lane() / 4 % 2 != 0);
            continue;
          }
#pragma unroll
        for (int j = 0; j < 8; ++j)
          if (i + j < count) values[i + j] = eight[j];
      }
    } else {
      for (std::int64_t i = block.thread(); i < count; i += threads)
        values[i] = (static_cast<C>(codes.one(first + i)) - middle) * scale;
    }
    block.sync();
    hadamard_transform<true>(block, values, count, shape);
    const quant::SignWords signs(from.key, group);
    const C top = static_cast<C>(largest_finite<T>);
    for (std::int64_t i = block.thread(); i < count; i += threads) {
      const std::int64_t element = first + i;
      if (element < begin || element >= end) continue;
      C value = is_flipped(signs, i) ? -values[i] : values[i];
      value += centred ? static_cast<C>(from.means.of(element)) + static_cast<C>(mean) : static_cast<C>(mean);
      value = value > top ? top : value;  // NaN stays
      value = value < -top ? -top : value;
      out[element - begin] = static_cast<T>(static_cast<float>(value));
    }
  }
};

}  // namespace

void dequantize_hadamard(Stream stream, DType type, const HadamardCodes& from, std::int64_t begin, std::int64_t end,
                         void* out) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, (end - 1) / from.size - begin / from.size + 1,
        DequantizeGroup<T>{.from = from,
                           .codes = PackedCodes(from.codes, from.count, from.bits),
                           .out = static_cast<T*>(out),
                           .begin = begin,
                           .end = end});
  });
}

}  // namespace lacuna::cuda
