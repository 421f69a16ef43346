#include "ops/quantize/decode_map.h"
#include "ops/quantize/group_walk.h"
#include "ops/quantize/sign_mask_cuda.h"

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

  LACUNA_DEVICE void operator()(const Block<Dequantize>& block) const {
    const std::int64_t first = begin / 8 * 8 + block.global_thread() * 8;
    if (first >= end) return;
    Eight eight;
    read_codes(codes, first, from.key, from.dithered, eight.values);
    if (groups.in_eights) {
      decode<T>(line_of(groups.group_of(first)), eight.values);
    } else {
      GroupWalk walk(groups, first);
      DecodingLine line = line_of(walk.group());
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (i > 0 && walk.next()) line = line_of(walk.group());
        eight[i] = decoded<T>(eight[i], line);
      }
    }
    if (begin % 8 == 0) return out.set(first - begin, eight);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (first + i >= begin && first + i < end) out.set_one(first + i - begin, eight[i]);
  }

 private:
  LACUNA_DEVICE DecodingLine line_of(std::int64_t group) const {
    return {from.params + group * 4, from.bits, from.dithered};
  }
};

}  // namespace

void dequantize_affine(Stream stream, DType type, const AffineCodes& from, const std::uint8_t* signs,
                       std::int64_t begin, std::int64_t end, void* out) {
  const SavedValues codes{.codes = from.codes,
                          .params = from.params,
                          .group = from.size,
                          .key = from.key,
                          .bits = from.bits,
                          .dithered = from.dithered};
  const bool by_quads = from.row == from.count && in_quads(codes, begin, end, out);
  with_cuda_type(type, [&]<class T>(Type<T>) {
    T* const to = static_cast<T*>(out);
    if (by_quads && signs != nullptr) return decode_quads(stream, codes, begin, end, to, Rectified{signs + begin / 8});
    if (by_quads) return decode_quads(stream, codes, begin, end, to, AsDecoded{});
    run(stream, divide_up(end - begin / 8 * 8, 8 * Dequantize<T>::threads),
        Dequantize<T>{.from = from,
                      .groups = Groups(from),
                      .codes = PackedCodes(from.codes, from.count, from.bits),
                      .out = Written<T>(out, end - begin),
                      .begin = begin,
                      .end = end});
  });
  if (signs != nullptr && !by_quads)
    apply_sign_bits(stream, type,
                    {.in = out, .bits = signs, .first = begin, .keep_nan = true, .out = out, .count = end - begin});
}

}  // namespace lacuna::cuda
