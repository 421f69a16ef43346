#include "ops/cuda/elements.h"
#include "ops/quantize/group_walk.h"

namespace lacuna::cuda {
namespace {

template <class T>
struct Dequantize {
  static constexpr int threads = 256;
  AffineCodes from;
  Groups groups;
  PackedCodes codes;
  Written<T> out;
  std::int64_t begin, end;
  std::uint64_t mixed;

  LACUNA_DEVICE void operator()(const Block<Dequantize>& block) const {
    const std::int64_t first = begin / 8 * 8 + block.global_thread() * 8;
    if (first >= end) return;
    Eight eight;
    steps_of(codes, first, mixed, from.dithered, eight.values);
    if (groups.in_eights) {
      decode<T>(DecodingLine(from.params + groups.group_of(first) * 4, from.bits), eight.values);
    } else {
      GroupWalk walk(groups, first);
      DecodingLine line(from.params + walk.group() * 4, from.bits);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (i > 0 && walk.next()) line = DecodingLine(from.params + walk.group() * 4, from.bits);
        eight[i] = decoded<T>(eight[i], line);
      }
    }
    if (begin % 8 == 0) return out.set(first - begin, eight);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (first + i >= begin && first + i < end) out.set_one(first + i - begin, eight[i]);
  }
};

}  // namespace

void dequantize_affine(Stream stream, DType type, const AffineCodes& from, std::int64_t begin, std::int64_t end,
                       void* out) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(end - begin / 8 * 8, 8 * Dequantize<T>::threads),
        Dequantize<T>{.from = from,
                      .groups = Groups(from),
                      .codes = PackedCodes(from.codes, from.count, from.bits),
                      .out = Written<T>(out, end - begin),
                      .begin = begin,
                      .end = end,
                      .mixed = quant::splitmix64(quant::splitmix64(from.key))});
  });
}

}  // namespace lacuna::cuda
